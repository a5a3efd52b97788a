import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'

const logModule = new URL('../../src/log.ts', import.meta.url).href

/** What a process logged: logs are synchronous, so that a crash loses no line. */
function logged(settings: object, line: string): { stdout: string; stderr: string } {
  const code = `import { openLog } from '${logModule}'; const log = openLog(${JSON.stringify(settings)}); ${line}; process.exit(0)`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' })
  return { stdout, stderr }
}

test('a log line is JSON on stderr, with its level, an instant and its facts', () => {
  const { stdout, stderr } = logged(
    { level: 'info', format: 'auto' },
    "log.info({ deliveryId: 'dlv_1' }, 'attempt.settled')",
  )
  assert.equal(stdout, '')
  const { time, ...rest } = JSON.parse(stderr)
  assert.match(time, /^\d{4}-.*Z$/)
  assert.deepEqual(rest, { level: 'info', deliveryId: 'dlv_1', msg: 'attempt.settled' })
})

test('a secret never reaches the log', () => {
  const fields =
    "{ secret: 'canary', apiKey: 'canary', headers: { authorization: 'canary' }, endpoint: { secrets: ['canary'] } }"
  for (const format of ['json', 'pretty']) {
    const { stderr } = logged({ level: 'info', format }, `log.info(${fields}, 'x')`)
    assert.ok(stderr.includes('•••') && !stderr.includes('canary'), stderr)
  }
})

test('what is less important than the level is not logged', () => {
  assert.equal(logged({ level: 'warn', format: 'json' }, "log.info({}, 'x')").stderr, '')
})
