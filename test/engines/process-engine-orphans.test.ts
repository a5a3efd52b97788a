import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isThere, openReports, untilGone } from './process-scene.ts'

const program = fileURLToPath(new URL('../support/rough-modules/parent.ts', import.meta.url))

test('a parent that is killed leaves no worker behind, whatever that is doing', async (t) => {
  const reports = await openReports(t)
  const parent = spawn(process.execPath, [program, reports.to], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => parent.kill('SIGKILL'))
  const lines = createInterface(parent.stdout)[Symbol.asyncIterator]()
  const said: string[] = []
  while (said.length < 5) said.push(String((await lines.next()).value))
  assert.ok(said.includes('spinning'), 'the one that spins while it loads')
  const pids = said.filter((line) => line !== 'spinning').map(Number)
  const spinning = Number(await reports.next())
  reports.release()
  assert.ok(pids.includes(spinning))
  assert.deepEqual(pids.map(isThere), [true, true, true, true])
  parent.kill('SIGKILL')
  await once(parent, 'exit')
  for (const pid of pids) await untilGone(pid)
})
