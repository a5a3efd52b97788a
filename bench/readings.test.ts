import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { urlIn } from './posthorn.ts'
import { markOf, number } from './report.ts'
import { latencyOf, median, spreadOf } from './statistics.ts'
import { cpuSeconds, megabytesIn, memoryOf, ticksIn, treeCpuSeconds } from './usage.ts'

test('reads the CPU time of a process whose name holds spaces and brackets', () => {
  const stat = '4242 (a (bad) name) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 17 0 0 20 0 11 0 123456 1000 200'
  assert.equal(ticksIn(stat), 267)
})

test('counts the CPU time that a process uses, and no other', () => {
  const before = cpuSeconds(process.pid)
  const ownBefore = process.cpuUsage()
  while (process.cpuUsage(ownBefore).user < 200_000);
  const { user, system } = process.cpuUsage(ownBefore)
  assert.ok(Math.abs(cpuSeconds(process.pid) - before - (user + system) / 1e6) < 0.05)
})

test('counts what child processes use, those that have ended included', async () => {
  // Each says how many seconds it has used.
  const busy = `let at = 0; while (process.cpuUsage().user < 300_000) at += Math.sin(at);
    const { user, system } = process.cpuUsage(); console.log((user + system) / 1e6)`
  const before = treeCpuSeconds(process.pid)
  const ended = Number(spawnSync(process.execPath, ['-e', busy], { encoding: 'utf8' }).stdout)
  const living = spawn(process.execPath, ['-e', `${busy}; setInterval(() => {}, 10_000)`])
  const [said] = await once(living.stdout, 'data')
  const whileItLives = treeCpuSeconds(process.pid) - before
  living.kill()
  await once(living, 'exit')
  const atEnd = treeCpuSeconds(process.pid) - before
  const used = ended + Number(said)
  assert.ok(whileItLives > used - 0.05 && whileItLives < used + 0.5, `${whileItLives} s of ${used} s`)
  assert.ok(atEnd >= whileItLives, `${atEnd} s`)
})

test('reads memory in megabytes', () => {
  assert.equal(megabytesIn('Name:\tnode\nVmRSS:\t    2048 kB\nRssAnon:\t 1024 kB\n', 'VmRSS'), 2)
  assert.ok(Number.isNaN(megabytesIn('Name:\tnode\n', 'VmRSS')))
  const { rssMb, peakMb } = memoryOf(process.pid)
  assert.ok(rssMb > 10 && peakMb >= rssMb)
})

test('finds where the server listens', () => {
  assert.equal(urlIn('Posthorn listens on http://127.0.0.1:41873'), 'http://127.0.0.1:41873')
  assert.equal(urlIn('endpoints on this machine are refused'), null)
})

test('takes medians, quartiles and percentiles of unsorted values', () => {
  assert.equal(median([5, 1, 3]), 3)
  assert.deepEqual(spreadOf([4, 1, 3, 2, 5]), { median: 3, low: 2, high: 4, min: 1, max: 5, count: 5 })
  const values = Array.from({ length: 101 }, (_, at) => 100 - at)
  assert.deepEqual(latencyOf(values), { p50: 50, p95: 95, p99: 99, max: 100, count: 101 })
})

test('marks a figure by its thresholds, and nothing measured as a failure', () => {
  const verdict = { what: '', wanted: 'at least', must: 0.5, goal: 0.75, unit: '' } as const
  assert.equal(markOf({ ...verdict, value: 0.8 }), 'goal')
  assert.equal(markOf({ ...verdict, value: 0.5 }), 'pass')
  assert.equal(markOf({ ...verdict, value: 0.49 }), 'FAIL')
  assert.equal(markOf({ ...verdict, value: Number.NaN }), 'FAIL')
  assert.equal(markOf({ ...verdict, wanted: 'at most', must: 1.2, goal: null, value: 1.3 }), 'FAIL')
  assert.equal(number(Number.NaN), 'n/a')
})
