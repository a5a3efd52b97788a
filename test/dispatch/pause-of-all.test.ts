import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Pause, PauseOfAll } from '../../src/dispatch/pause-of-all.ts'
import type { Store } from '../../src/store/store.ts'
import { storeFor } from '../support/sqlite.ts'

/** The pause as one process has it, and what was applied there. */
async function started(store: Store, startedPaused = false) {
  const applied: boolean[] = []
  const pause = new PauseOfAll(store, startedPaused, ({ paused }) => applied.push(paused))
  await pause.load()
  return { pause, applied }
}

test('a pause holds for all, also for one that starts later, until somebody resumes', async (t) => {
  const store = await storeFor(t)
  const [here, there] = [await started(store), await started(store)]
  await here.pause.set(true)
  await here.pause.set(true)
  await there.pause.refresh()
  const late = await started(store)
  assert.deepEqual([here.applied, there.applied, late.applied], [[true], [true], [true]])
  await late.pause.set(false)
  await Promise.all([here.pause.refresh(), there.pause.refresh()])
  assert.deepEqual([here.applied, there.applied, late.applied], Array(3).fill([true, false]))
  assert.deepEqual((await started(store)).applied, [])
})

test('a process that starts paused pauses no other, and goes on when somebody resumes anywhere', async (t) => {
  const store = await storeFor(t)
  const [paused, other] = [await started(store, true), await started(store)]
  await Promise.all([paused.pause.refresh(), other.pause.refresh()])
  assert.deepEqual([paused.pause.paused, paused.applied, other.applied], [true, [true], []])
  await other.pause.set(false)
  await paused.pause.refresh()
  assert.deepEqual([paused.pause.paused, paused.applied, other.applied], [false, [true, false], []])
})

test('what was said before a process started paused does not end its pause', async (t) => {
  const store = await storeFor(t)
  await (await started(store)).pause.set(false)
  const { pause } = await started(store, true)
  await pause.refresh()
  assert.equal(pause.paused, true)
})

test('a process knows whether it alone is paused', async (t) => {
  const store = await storeFor(t)
  const applied: Pause[] = []
  const pause = new PauseOfAll(store, true, (each) => applied.push(each))
  await pause.load()
  await pause.set(true)
  await pause.set(false)
  assert.deepEqual(applied, [
    { paused: true, isOwn: true },
    { paused: true, isOwn: false },
    { paused: false, isOwn: false },
  ])
})
