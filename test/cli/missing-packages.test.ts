import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { posthorn } from './command.ts'

/** A Node in which these packages are not installed. */
function without(...packages: readonly string[]): Readonly<Record<string, string>> {
  const hook = `
    import { registerHooks } from 'node:module'
    const missing = ${JSON.stringify(packages)}
    registerHooks({
      resolve(specifier, context, next) {
        if (!missing.includes(specifier)) return next(specifier, context)
        throw Object.assign(new Error('Cannot find package ' + specifier), { code: 'ERR_MODULE_NOT_FOUND' })
      },
    })`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` }
}

const env = {
  POSTHORN_DATABASE_URL: 'postgres://user:secret@127.0.0.1:1/posthorn',
  POSTHORN_ENCRYPTION_KEY: '07'.repeat(32),
}

describe('a package that is not installed', () => {
  it('is named with the command that installs it, for Postgres', async () => {
    for (const command of [['start', '--port', '0'], ['migrate'], ['doctor']]) {
      const { code, stdout, stderr } = await posthorn(command, { env: { ...env, ...without('pg') } })
      assert.notEqual(code, 0, command.join(' '))
      assert.match(stdout + stderr, /A Postgres database needs the package pg\. Install it with `npm install pg@8`\./)
      assert.doesNotMatch(stdout + stderr, /\bat .*\.ts:\d+|secret/)
    }
  })

  it('is named with the command that installs it, for Redis', async () => {
    const redis = { ...env, POSTHORN_REDIS_URL: 'redis://127.0.0.1:1' }
    const { code, stdout } = await posthorn(['doctor'], { env: { ...redis, ...without('redis') } })
    assert.notEqual(code, 0)
    assert.match(stdout, /POSTHORN_REDIS_URL needs the package redis\. Install it with `npm install redis@6`\./)
  })

  it('is not missed without a database that needs it', async () => {
    const { code, stdout } = await posthorn(['config', 'show'], { env: without('pg', 'redis') })
    assert.equal(code, 0, stdout)
  })
})
