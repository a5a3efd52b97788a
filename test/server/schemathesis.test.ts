// The OpenAPI document in the eyes of others: a linter, and a tool that makes requests from it.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { tempFolder } from '../support/sqlite.ts'
import { openServed, type Served } from './served.ts'

const root = path.join(import.meta.dirname, '../..')
const here = path.join(import.meta.dirname, 'schemathesis')
const environment = path.join(root, '.runtime/python')
const version = '4.32.5'
const triesMax = 3
const key = 'the-key-of-the-configuration'

async function scene(t: TestContext): Promise<Readonly<{ served: Served; folder: string; document: string }>> {
  const served = await openServed({ POSTHORN_API_KEY: key })
  t.after(() => served.stop())
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const document = path.join(folder.path, 'openapi.json')
  writeFileSync(document, (await served.call('GET', '/openapi.json')).text)
  return { served, folder: folder.path, document }
}

test('the linter of Redocly finds no error and nothing to warn of', async (t) => {
  const { document, folder } = await scene(t)
  const cli = path.join(root, 'node_modules/@redocly/cli/bin/cli.js')
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  const args = [cli, 'lint', document, '--format=json', '--extends=recommended']
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' })
  const { totals, problems } = JSON.parse(stdout || JSON.stringify({ totals: null, problems: stderr }))
  assert.deepEqual(
    { errors: totals?.errors, warnings: totals?.warnings },
    { errors: 0, warnings: 0 },
    JSON.stringify(problems),
  )
})

const isCi = Boolean(process.env.CI)
const schemathesis = install()

test('requests that Schemathesis makes from the document are answered as it says', {
  // In continuous integration it is a failure instead.
  skip: schemathesis.problem !== null && !isCi ? schemathesis.problem : false,
  timeout: 290_000,
}, async (t) => {
  assert.equal(schemathesis.problem, null)
  const { served, folder, document } = await scene(t)
  const args = ['--config-file', path.join(here, 'schemathesis.toml'), 'run', document, '--url', served.url]
  const header = ['--header', `Authorization: Bearer ${key}`]
  // It goes on for as long as somebody listens.
  const left = ['--exclude-path', '/v1/stream']
  const effort = [
    '--phases',
    'examples,coverage,fuzzing',
    '--max-examples',
    '8',
    '--generation-deterministic',
    '--no-color',
    '--request-timeout',
    '60',
  ]
  const env = { ...process.env, SCHEMATHESIS_HOOKS: 'hooks', PYTHONPATH: here, PYTHONDONTWRITEBYTECODE: '1' }
  const child = spawn(schemathesis.command, [...args, ...header, ...left, ...effort], { cwd: folder, env })
  const [printed, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  assert.equal(code, 0, printed)
  assert.match(printed, /\d+ generated/)
})

/** Its command, in an environment of its own, or why there is none. */
function install(): Readonly<{ command: string; problem: string | null }> {
  const command = path.join(environment, 'bin/schemathesis')
  let said = ''
  for (let tries = 0; tries <= triesMax; tries++) {
    if (existsSync(command) && run(command, ['--version']).includes(version)) return { command, problem: null }
    said = run('python3', ['-m', 'venv', environment])
    said += run(path.join(environment, 'bin/pip'), ['install', '--quiet', `schemathesis==${version}`])
  }
  return { command, problem: `schemathesis ${version} cannot be installed: ${said}` }
}

function run(command: string, args: readonly string[]): string {
  const { stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  return `${stdout ?? ''}${stderr ?? ''}${error ?? ''}`
}
