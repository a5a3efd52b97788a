import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import type { Settled } from '../../src/core/delivery.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { Notice } from '../../src/core/notice.ts'
import { presets } from '../../src/core/retry-policy.ts'
import { openLog } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import type { Claim } from '../../src/store/pipeline-store.ts'
import type { Store } from '../../src/store/store.ts'
import { Upkeep, type UpkeepReport, type UpkeepSettings } from '../../src/upkeep/upkeep.ts'
import { aNewDelivery, anArrival, anEndpoint, anEvent, keptForAWeek, t0 } from '../support/builders.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

const log = openLog({ level: 'silent', format: 'json' })
const hourMs = 3_600_000
const dayMs = 24 * hourMs

type Scene = Readonly<{
  store: Store
  endpoint: Endpoint
  time: { now: number; skewMs: number; setForwardMs: number }
  published: Notice[]
  upkeep: Upkeep
  /** Endpoints of which something was said to be due. */
  lookedAt: string[]
}>

async function scene(t: TestContext, given: Partial<UpkeepSettings> = {}, now?: () => number): Promise<Scene> {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  const endpoint = anEndpoint({ retry: { ...presets.webhook, maxAgeMs: 7 * dayMs } })
  await store.putEntry('endpoint', endpoint, 0)
  const time = { now: t0 + 100 * dayMs, skewMs: 0, setForwardMs: 0 }
  const notices = new Notices((error) => assert.fail(String(error)))
  const published: Notice[] = []
  const lookedAt: string[] = []
  notices.subscribe((notice) => published.push(notice))
  const upkeep = new Upkeep({
    store,
    endpoints: () => [endpoint],
    clock: {
      steady: () => time.now + time.setForwardMs,
      wall: () => time.now + time.skewMs,
      monotonic: () => time.now,
    },
    log,
    notices,
    settings: { ...keptForAWeek, ...given },
    ...(now && { now }),
    dispatcher: { leads: true, goOnAt: (endpointIds) => lookedAt.push(...endpointIds) },
  })
  t.after(async () => {
    await upkeep.stop()
    await store.close()
    await folder.remove()
  })
  return { store, endpoint, time, published, lookedAt, upkeep }
}

/** How a delivery ended, and how long ago; null: it has not. */
type End = Readonly<{ status: 'delivered' | 'failed' | 'dead_letter'; agoMs: number }> | null

async function keep({ store, endpoint, time }: Scene, receivedAgoMs: number, end: End): Promise<string> {
  const receivedAt = time.now - receivedAgoMs
  const arrival = anArrival(endpoint, { event: { receivedAt }, delivery: { leaseEndsAt: time.now + hourMs } })
  const kept = end === null ? { ...arrival, deliveries: [aNewDelivery(endpoint, { dueAt: receivedAt })] } : arrival
  await store.append([kept])
  const id = kept.deliveries[0]!.id
  if (end === null) return id
  const record = await store.getDelivery(id)
  assert.ok(record?.delivery.status === 'processing')
  await store.commit([{ to: settled(record.delivery, end, time.now), attempt: null, claimNext: null }])
  return id
}

function settled({ leaseEndsAt: _, ...facts }: Claim['delivery'], end: NonNullable<End>, now: number): Settled {
  const at = now - end.agoMs
  const common = { ...facts, version: facts.version + 1, attempts: 1, lastAttemptAt: at }
  if (end.status === 'delivered') return { ...common, status: 'delivered', deliveredAt: at }
  return { ...common, status: end.status, reason: 'exhausted', settledAt: at }
}

const counts = ({ expired, deliveries, events, keys, replays, skipped }: UpkeepReport) => ({
  ...{ expired, deliveries, events, keys, replays, skipped },
})

test('a run that is still under way when the next one would begin hurries', async (t) => {
  let now = 0
  const { store, time, upkeep } = await scene(t, { everyMs: 5 }, () => now)
  const old = () => ({ event: anEvent({ receivedAt: time.now - 30 * dayMs }), idempotency: null, deliveries: [] })
  await store.append(Array.from({ length: 4_000 }, old))
  const pieces: number[] = []
  const prune = store.prune.bind(store)
  store.prune = (request) => {
    pieces.push(request.limit)
    now += request.limit / 100
    return prune(request)
  }
  time.now += dayMs
  assert.equal((await upkeep.run()).events, 4_000)
  const hurriedFrom = pieces.findIndex((limit) => limit > 64)
  assert.ok(hurriedFrom > 4, pieces.join(' '))
  assert.equal(Math.max(...pieces), 500)
})

test('nothing younger than its rule is deleted, and everything older is', async (t) => {
  const ages = fc.integer({ min: 0, max: 30 * dayMs })
  const end = fc.record({
    status: fc.constantFrom('delivered' as const, 'failed' as const, 'dead_letter' as const),
    share: fc.double({ noNaN: true, min: 0, max: 1 }),
  })
  const row = fc.record({ receivedAgoMs: ages, end: fc.option(end) })
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 80 }), async (rows) => {
      const stage = await scene(t, { afterMs: 0 })
      const expected = new Map<string, boolean>()
      await Promise.all(
        rows.map(async ({ receivedAgoMs, end }) => {
          const agoMs = end === null ? 0 : Math.floor(receivedAgoMs * end.share)
          const id = await keep(stage, receivedAgoMs, end === null ? null : { status: end.status, agoMs })
          expected.set(id, isKept(receivedAgoMs, end?.status ?? null, agoMs))
        }),
      )
      const report = await stage.upkeep.run()
      for (const [id, kept] of expected) {
        assert.equal((await stage.store.getDelivery(id)) !== null, kept, JSON.stringify(rows))
      }
      const gone = [...expected.values()].filter((kept) => !kept).length
      assert.deepEqual([report.deliveries, report.events, report.skipped], [gone, gone, null])
      const { items } = await stage.store.listEvents({ limit: 100 })
      assert.equal(items.length, rows.length - gone)
      await stage.store.close()
    }),
    { numRuns: 6 },
  )
})

/** The rules of retention in plain words; what waits for more than 7 days expires, and is then a young dead letter. */
function isKept(receivedAgoMs: number, status: string | null, agoMs: number): boolean {
  if (status === null) return true
  if (status === 'dead_letter') return receivedAgoMs < 14 * dayMs || agoMs < 7 * dayMs
  return agoMs < 7 * dayMs
}

test('what has waited for longer than the policy allows expires, is told, and is kept as a dead letter', async (t) => {
  const stage = await scene(t)
  const old = await keep(stage, 7 * dayMs + 1, null)
  const young = await keep(stage, 7 * dayMs - hourMs, null)
  const report = await stage.upkeep.run()
  assert.equal(report.expired, 1)
  const { delivery } = (await stage.store.getDelivery(old))!
  assert.equal(delivery.status, 'dead_letter')
  assert.equal('reason' in delivery && delivery.reason, 'expired')
  assert.deepEqual(stage.lookedAt, [stage.endpoint.id])
  assert.equal((await stage.store.getDelivery(young))?.delivery.status, 'pending')
  const [notice, ...others] = stage.published
  assert.deepEqual(others, [])
  assert.deepEqual(notice, {
    kind: 'delivery.ended',
    tenant: 'default',
    deliveryId: old,
    eventId: delivery.eventId,
    endpointId: stage.endpoint.id,
    type: 'order.created',
    status: 'dead_letter',
    reason: 'expired',
  })
})

test('an event that went to nobody is kept for its own time', async (t) => {
  const stage = await scene(t)
  const event = (agoMs: number) => anEvent({ receivedAt: stage.time.now - agoMs })
  const [old, young] = [event(7 * dayMs + 1), event(7 * dayMs - 1)]
  await stage.store.append([old, young].map((each) => ({ event: each, idempotency: null, deliveries: [] })))
  assert.equal((await stage.upkeep.run()).events, 1)
  assert.equal(await stage.store.getEvent(old.id), null)
  assert.notEqual(await stage.store.getEvent(young.id), null)
})

test('nothing goes in the first minutes after a start, nor while the clocks disagree by more than an hour', async (t) => {
  const stage = await scene(t, { afterMs: 600_000 })
  await keep(stage, 30 * dayMs, { status: 'delivered', agoMs: 29 * dayMs })
  await keep(stage, 30 * dayMs, null)
  const none = { expired: 0, deliveries: 0, events: 0, keys: 0, replays: 0 }
  assert.deepEqual(counts(await stage.upkeep.run()), { ...none, skipped: 'just_started' })
  stage.time.now += 600_000
  for (const skewMs of [hourMs + 1, -hourMs - 1, 365 * dayMs, -56 * 365 * dayMs]) {
    stage.time.skewMs = skewMs
    assert.deepEqual(counts(await stage.upkeep.run()), { ...none, skipped: 'clocks_apart' })
  }
  stage.time.skewMs = 0
  assert.deepEqual(counts(await stage.upkeep.run()), { ...none, expired: 1, deliveries: 1, events: 1, skipped: null })
})

test('a clock that is corrected after the start stops upkeep until it has gone right for ten minutes', async (t) => {
  const stage = await scene(t)
  // The machine woke up 100 days behind; what is old by the right time was written before that.
  const aheadMs = 100 * dayMs
  await keep(stage, 0, { status: 'delivered', agoMs: 0 })
  const old = await keep(stage, 30 * dayMs - aheadMs, { status: 'delivered', agoMs: 29 * dayMs - aheadMs })
  stage.time.now += 60_000
  stage.time.skewMs = aheadMs
  assert.equal(stage.upkeep.agesKnown, false)
  stage.time.now += 599_999
  assert.equal((await stage.upkeep.run()).skipped, 'clocks_apart')
  stage.time.now += 1
  assert.equal(stage.upkeep.agesKnown, true)
  const { skipped, deliveries } = await stage.upkeep.run()
  assert.deepEqual([skipped, deliveries], [null, 1])
  assert.equal(await stage.store.getDelivery(old), null)
  // What was settled by the wrong time is minutes old, not a hundred days.
  stage.time.now += 8 * dayMs
  assert.equal((await stage.upkeep.run()).deliveries, 1)
})

test('a store whose time was set a month ahead deletes nothing at once', async (t) => {
  const stage = await scene(t)
  const id = await keep(stage, hourMs, { status: 'delivered', agoMs: hourMs })
  await keep(stage, hourMs, null)
  // Schedules follow the store's time at once.
  stage.time.setForwardMs = 30 * dayMs
  stage.time.skewMs = 30 * dayMs
  assert.equal((await stage.upkeep.run()).skipped, 'clocks_apart')
  // It is set right again; schedules never go back.
  stage.time.skewMs = 0
  stage.time.now += hourMs
  const { skipped, expired } = await stage.upkeep.run()
  assert.deepEqual([skipped, expired], [null, 0])
  assert.notEqual(await stage.store.getDelivery(id), null)
})

test('with the wall clock ahead by less than an hour nothing goes before its time', async (t) => {
  const stage = await scene(t)
  const id = await keep(stage, 7 * dayMs - hourMs / 2, { status: 'delivered', agoMs: 7 * dayMs - hourMs / 2 })
  stage.time.skewMs = hourMs
  await stage.upkeep.run()
  assert.notEqual(await stage.store.getDelivery(id), null)
})

test('thousands of rows go in pieces of at most 500, and a full walk comes once a day', async (t) => {
  const stage = await scene(t)
  const receivedAt = stage.time.now - 8 * dayMs
  const old = Array.from({ length: 3_000 }, () => ({
    event: anEvent({ receivedAt }),
    idempotency: null,
    deliveries: [],
  }))
  await stage.store.append(old)
  const young = Array.from({ length: 600 }, () => ({
    ...{ event: anEvent({ receivedAt: stage.time.now }), idempotency: null, deliveries: [] },
  }))
  await stage.store.append(young)
  const limits: number[] = []
  const prune = stage.store.prune.bind(stage.store)
  stage.store.prune = (request) => {
    if (request.what === 'events') limits.push(request.limit)
    return prune(request)
  }
  const first = await stage.upkeep.run()
  assert.deepEqual([first.events, first.full], [3_000, true])
  assert.ok(limits.length >= 8 && Math.max(...limits) <= 500)
  limits.length = 0
  // Only young ones are left: one look is enough.
  assert.equal((await stage.upkeep.run()).full, false)
  assert.equal(limits.length, 1)
  stage.time.now += dayMs
  limits.length = 0
  assert.equal((await stage.upkeep.run()).full, true)
  assert.ok(limits.length > 1)
})

test('an old event behind a young one, kept while the clock was wrong, goes with the daily walk', async (t) => {
  const stage = await scene(t)
  await stage.upkeep.run()
  for (let n = 0; n < 40; n += 1)
    await stage.store.append([{ event: anEvent({ receivedAt: stage.time.now }), idempotency: null, deliveries: [] }])
  const lost = anEvent({ receivedAt: stage.time.now - 20 * dayMs })
  await stage.store.append([{ event: lost, idempotency: null, deliveries: [] }])
  assert.equal((await stage.upkeep.run()).events, 0)
  stage.time.now += dayMs
  assert.equal((await stage.upkeep.run()).events, 1)
  assert.equal(await stage.store.getEvent(lost.id), null)
})

test('keys that have ended are deleted, all of them, and the others stay', async (t) => {
  const { store, endpoint, time, upkeep } = await scene(t)
  const keyed = (key: string, expiresAt: number) =>
    anArrival(endpoint, {
      event: { receivedAt: time.now },
      idempotency: { scope: 'tenant:default', key, fingerprint: 'f', expiresAt },
    })
  await store.append(Array.from({ length: 2_500 }, (_, n) => keyed(`old-${n}`, time.now - 1)))
  await store.append([keyed('young', time.now + 100)])
  assert.equal((await upkeep.run()).keys, 2_500)
  assert.equal((await store.prune({ what: 'keys', now: time.now + 100, limit: 10, after: null })).deleted, 1)
})

test('the space of what was deleted goes back to the file system', async (t) => {
  const stage = await scene(t)
  const receivedAt = stage.time.now - 8 * dayMs
  const body = new Uint8Array(20_000)
  const large = () => ({ event: anEvent({ receivedAt, body }), idempotency: null, deliveries: [] })
  await stage.store.append(Array.from({ length: 400 }, large))
  const report = await stage.upkeep.run()
  assert.ok(report.pagesFreed > 1_500, `${report.pagesFreed} pages`)
  const { freeBytes } = await stage.store.space!.sizes()
  assert.ok(freeBytes < 1_000_000, `${freeBytes} bytes are free`)
})

test('two that ask at once get the report of one run', async (t) => {
  const stage = await scene(t)
  const [a, b] = await Promise.all([stage.upkeep.run(), stage.upkeep.run()])
  assert.equal(a, b)
  assert.equal(stage.upkeep.state.last, a)
  assert.notEqual(await stage.upkeep.run(), a)
})

test('a stop ends the run between two pieces', async (t) => {
  const stage = await scene(t)
  const receivedAt = stage.time.now - 8 * dayMs
  const old = Array.from({ length: 2_000 }, () => ({
    event: anEvent({ receivedAt }),
    idempotency: null,
    deliveries: [],
  }))
  await stage.store.append(old)
  let pieces = 0
  const prune = stage.store.prune.bind(stage.store)
  stage.store.prune = (request) => {
    pieces += 1
    if (pieces === 2) void stage.upkeep.stop()
    return prune(request)
  }
  const report = await stage.upkeep.run()
  assert.equal(pieces, 2)
  assert.equal(report.skipped, 'stopping')
  assert.ok(report.events < 2_000)
})

test('it runs by itself: first when the time after a start is over, then at every interval', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const stage = await scene(t, { afterMs: 600_000, everyMs: hourMs })
  const runs: UpkeepReport[] = []
  let ran = Promise.withResolvers<void>()
  stage.upkeep.onRun((report) => {
    runs.push(report)
    ran.resolve()
  })
  const pass = async (ms: number) => {
    stage.time.now += ms
    ran = Promise.withResolvers()
    t.mock.timers.tick(ms)
    await ran.promise
    await new Promise((resolve) => setImmediate(resolve))
  }
  stage.upkeep.start()
  assert.equal(stage.upkeep.state.nextAt, stage.time.now + 600_000)
  await pass(600_000)
  assert.deepEqual(
    runs.map(({ skipped }) => skipped),
    [null],
  )
  assert.equal(stage.upkeep.state.nextAt, stage.time.now + hourMs)
  await pass(hourMs)
  assert.equal(runs.length, 2)
})
