import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const noFullDevice = existsSync('/dev/full') ? false : 'this system has no /dev/full'

test('a log that cannot be written stops nothing', { skip: noFullDevice }, async () => {
  const folder = await tempFolder()
  const port = await freePort()
  const args = [main, 'start', '--port', String(port), '--database', `sqlite:${join(folder.path, 'p.db')}`]
  const env = { ...process.env, POSTHORN_LOG_LEVEL: 'trace' }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', openSync('/dev/full', 'w')] })
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  const answers = () =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (child.exitCode === null && !(await answers())) await pause(50)
  const headers = { 'content-type': 'application/json' }
  for (let n = 0; n < 20; n++) {
    const response = await fetch(`${url}/v1/events`, { method: 'POST', headers, body: `{"type":"a","data":${n}}` })
    assert.equal(response.status, 202)
  }
  child.kill('SIGTERM')
  const [code] = await exited
  assert.equal(code, 0)
  await folder.remove()
})
