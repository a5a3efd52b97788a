import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Store } from '../../src/store/store.ts'
import type { SpaceSizes, StoreSpace } from '../../src/store/upkeep-store.ts'
import { anEvent, t0 } from '../support/builders.ts'
import { Scene } from './scene.ts'

const day = 86_400_000
const retention = { deliveredMs: day, failedMs: day, deadLetterMs: day, eventMs: day }
const body = new Uint8Array(100_000)

async function opened(t: test.TestContext): Promise<{ store: Store; space: StoreSpace }> {
  const scene = new Scene(t)
  const store = await scene.open(await scene.newFile())
  assert.ok(store.space)
  return { store, space: store.space }
}

async function fill(store: Store): Promise<void> {
  const arrivals = Array.from({ length: 20 }, () => ({ event: anEvent({ body }), idempotency: null, deliveries: [] }))
  await store.append(arrivals)
}

async function empty(store: Store): Promise<void> {
  const { deleted } = await store.prune({ what: 'events', now: t0 + 8 * day, retention, limit: 100, after: null })
  assert.equal(deleted, 20)
}

test('a file tells how large it is, and what of that is free', async (t) => {
  const { store, space } = await opened(t)
  const sumOf = ({ fileBytes, walBytes }: SpaceSizes) => fileBytes + walBytes
  const before = sumOf(await space.sizes())
  await fill(store)
  const full = await space.sizes()
  assert.ok(sumOf(full) - before >= 20 * body.length, `${before} → ${sumOf(full)}`)
  assert.ok(full.freeBytes < body.length, `${full.freeBytes} free before anything was deleted`)
  await empty(store)
  const { freeBytes } = await space.sizes()
  const most = 20 * body.length
  assert.ok(freeBytes >= most && freeBytes < most * 1.5, `${freeBytes} free of ${most} that were deleted`)
})

test('a file gives free space back, a bounded piece at a time', async (t) => {
  const { store, space } = await opened(t)
  await fill(store)
  await empty(store)
  const before = (await space.sizes()).freeBytes
  assert.ok(before > 1_000_000)
  const left = await space.shrink(10)
  assert.ok(left > 0)
  const after = (await space.sizes()).freeBytes
  assert.ok(after < before && after > 0, `${before} → ${after}`)
  assert.equal(await space.shrink(0), left, 'no page is none, not all')
  assert.equal(await space.shrink(100_000), 0)
  assert.equal(await space.shrink(10), 0)
  assert.equal((await space.sizes()).freeBytes, 0)
})
