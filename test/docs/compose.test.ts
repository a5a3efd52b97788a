import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { describe, test } from 'node:test'
import { loadConfig } from '../../src/config.ts'
import { toolOf } from '../support/debian.ts'

const file = path.join(import.meta.dirname, '../../docs/operating/compose.yaml')
const given = {
  POSTGRES_PASSWORD: 'secret',
  POSTHORN_API_KEY: 'a-key-of-an-operator',
  POSTHORN_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
}

/** What compose makes of the file. */
function resolved(compose: string, env: NodeJS.ProcessEnv) {
  return spawnSync(compose, ['-f', file, 'config'], { encoding: 'utf8', env: { PATH: process.env.PATH, ...env } })
}

/** The text below one service, as `docker-compose config` prints it. */
function serviceIn(printed: string, name: string): string {
  return new RegExp(`^  ${name}:\\n((?:    .*\\n)+)`, 'm').exec(printed)?.[1] ?? ''
}

describe('docs/operating/compose.yaml', () => {
  test('is what compose understands, and its members are settings that Posthorn starts with', (t) => {
    const compose = toolOf(t, 'docker-compose', 'docker-compose')
    if (compose === null) return
    const { status, stdout, stderr } = resolved(compose, given)
    assert.equal(status, 0, stderr)
    const configs = ['posthorn-1', 'posthorn-2'].map((name) => {
      const env = Object.fromEntries(
        [...serviceIn(stdout, name).matchAll(/^ {6}(\w+): (.+)$/gm)].map(([, key, value]) => [key, value]),
      )
      return loadConfig({ flags: {}, env })
    })
    const [config] = configs
    assert.deepEqual(configs[1], config)
    assert.deepEqual([config?.host, config?.redisUrl], ['0.0.0.0', 'redis://redis:6379'])
    assert.equal(config?.database.kind === 'postgres' && new URL(config.database.url).hostname, 'postgres')
    for (const server of ['postgres', 'redis']) assert.notEqual(serviceIn(stdout, server), '')
    for (const name of ['posthorn-1', 'posthorn-2']) {
      assert.ok(serviceIn(stdout, 'load-balancer').includes(`--to ${name}:${config?.port}`))
    }
  })

  test('says which variable is missing', (t) => {
    const compose = toolOf(t, 'docker-compose', 'docker-compose')
    if (compose === null) return
    for (const name of Object.keys(given)) {
      const { status, stderr } = resolved(compose, { ...given, [name]: '' })
      assert.notEqual(status, 0)
      assert.match(stderr, new RegExp(`${name}[\\s\\S]*set it first`))
    }
  })
})
