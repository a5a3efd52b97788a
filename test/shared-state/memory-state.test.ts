import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import { sharedStateContract } from '../contracts/shared-state.ts'
import { eventually } from '../support/eventually.ts'

// The processes of a contract are one here: it is for one process alone.
sharedStateContract('memory', async (t) => {
  const state = new MemoryState(() => performance.now())
  t.after(() => state.close())
  return async () => state
})

const put = (key: string, ttlMs: number) => ({ key, from: null, to: 'x', ttlMs })

test('what has ended goes without being read, and nothing else does, however much there is', async (t) => {
  let now = 0
  const state = new MemoryState(() => now, { pruneEveryMs: 5 })
  t.after(() => state.close())
  const keys = Array.from({ length: 60_000 }, (_, n) => `k${n}`)
  await state.swap(keys.map((key, n) => put(key, n % 2 === 0 ? 100 : 200)))
  now = 100
  await eventually('those that have ended are gone', async () => (state.size === 30_000 ? true : null))
  await state.swap([put('late', 100)])
  now = 200
  await eventually('the rest too, in the next round', async () => (state.size === 0 ? true : null))
})

test('beyond its limit those that were put first are forgotten; what is put again is put last', async (t) => {
  const state = new MemoryState(() => 0, { entriesMax: 3 })
  t.after(() => state.close())
  await state.swap(['a', 'b', 'c'].map((key) => put(key, 100)))
  await state.swap([{ key: 'a', from: 'x', to: 'again', ttlMs: 100 }])
  await state.swap([put('d', 100)])
  assert.equal(state.size, 3)
  assert.deepEqual(await state.read(['a', 'b', 'c', 'd']), ['again', null, 'x', 'x'])
})
