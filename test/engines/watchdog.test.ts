import assert from 'node:assert/strict'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { Watchdog } from '../../src/engines/watchdog.ts'
import type { Logger } from '../../src/log.ts'
import { tempFolder } from '../support/sqlite.ts'

async function scene(t: TestContext, level = 'warn') {
  const folder = await tempFolder()
  const file = join(folder.path, 'log')
  const fd = openSync(file, 'w')
  const watchdog = new Watchdog({ log: { level, warn: assert.fail } as unknown as Logger, blockedMs: 60, fd })
  t.after(async () => {
    await watchdog.stop()
    closeSync(fd)
    await folder.remove()
  })
  return { watchdog, told: () => readFileSync(file, 'utf8') }
}

/** Blocks the loop, as a bad handler does, until something is told or it takes too long. */
function block(until: () => boolean, msMax = 20_000): void {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (const end = performance.now() + msMax; performance.now() < end && !until(); ) Atomics.wait(cell, 0, 0, 20)
}

describe('the watchdog', () => {
  test('names the handler that blocks the loop, while it does', async (t) => {
    const { watchdog, told } = await scene(t)
    watchdog.end(watchdog.enter('innocent'))
    watchdog.leave(0)
    const entry = watchdog.enter('resize-images')
    block(() => told() !== '')
    watchdog.leave(entry)
    watchdog.end(entry)
    const line = JSON.parse(told().split('\n')[0] ?? '')
    assert.deepEqual(
      [line.level, line.msg, line.handlers, line.isCertain],
      ['warn', 'handler.blocks_the_loop', ['resize-images'], true],
    )
  })

  test('names those under way when it is none at its beginning', async (t) => {
    const { watchdog, told } = await scene(t)
    for (const name of ['a', 'b', 'c']) watchdog.leave(watchdog.enter(name))
    watchdog.end(1)
    block(() => told() !== '')
    const line = JSON.parse(told().split('\n')[0] ?? '')
    assert.deepEqual([line.handlers, line.isCertain], [['a', 'c'], false])
  })

  test('keeps quiet when the log is to be', async (t) => {
    const { watchdog, told } = await scene(t, 'error')
    watchdog.enter('resize-images')
    block(() => told() !== '', 200)
    assert.equal(told(), '')
  })
})
