import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answered, numberIn, openBench } from '../support/dispatch-bench.ts'

test('a cancelled delivery ends as failed, and its lane goes on at once', async (t) => {
  const bench = await openBench(t, { script: (parcel) => answered(numberIn(parcel) === 1 ? 503 : 200) })
  const endpoint = await bench.add({ ordering: 'endpoint' })
  for (const n of [1, 2, 3]) await bench.send({ n })
  await bench.quiet()
  const [head] = await bench.deliveries()
  assert.equal(head!.delivery.status, 'pending')
  assert.equal(await bench.dispatcher.cancel(head!.delivery.id), 'cancelled')
  await bench.quiet()
  assert.deepEqual(
    bench.wire.triesOf(endpoint).map((one) => numberIn(one.parcel)),
    [1, 2, 3],
  )
  const records = await bench.deliveries()
  assert.deepEqual(
    records.map(({ delivery }) => ('reason' in delivery ? delivery.reason : delivery.status)),
    ['cancelled', 'delivered', 'delivered'],
  )
  const ended = bench.heard.find((notice) => notice.kind === 'delivery.ended')
  assert.deepEqual([ended?.deliveryId, ended?.reason, ended?.type], [head!.delivery.id, 'cancelled', 'order.created'])
})

test('one that waits behind another is cancelled without disturbing the head', async (t) => {
  const bench = await openBench(t, { script: (parcel) => answered(numberIn(parcel) === 1 ? 503 : 200) })
  const endpoint = await bench.add({ ordering: 'endpoint' })
  for (const n of [1, 2, 3]) await bench.send({ n })
  await bench.quiet()
  const behind = (await bench.deliveries())[1]!.delivery.id
  assert.equal(await bench.dispatcher.cancel(behind), 'cancelled')
  await bench.quiet()
  assert.deepEqual(
    bench.wire.triesOf(endpoint).map((one) => numberIn(one.parcel)),
    [1],
  )
  assert.deepEqual(await bench.tally(), { pending: 2, failed: 1 })
})

test('what is being tried, has ended or never was is not cancelled', async (t) => {
  const bench = await openBench(t, { script: () => 'hold' })
  await bench.add()
  await bench.send()
  const [record] = await bench.deliveries()
  const { id } = record!.delivery
  assert.equal(await bench.dispatcher.cancel(id), 'in_progress')
  bench.wire.answerAll(answered(200))
  await bench.quiet()
  assert.equal(await bench.dispatcher.cancel(id), 'settled')
  assert.equal(await bench.dispatcher.cancel('dlv_0000000000000000000000x'), 'not_found')
  assert.deepEqual(await bench.tally(), { delivered: 1 })
})

test('a cancel that meets a claim half way changes nothing', async (t) => {
  const bench = await openBench(t, { script: (_, tries) => (tries === 1 ? answered(503) : 'hold') })
  await bench.add()
  await bench.send()
  await bench.quiet()
  const [record] = await bench.deliveries()
  const letCommitsPass = bench.watched.hold('commit')
  const cancelling = bench.dispatcher.cancel(record!.delivery.id)
  // Between the cancel's look and its write, the backoff ends and the delivery is tried again.
  await bench.quiet()
  await bench.pass(1_000)
  assert.equal(bench.wire.open.size, 1)
  letCommitsPass()
  assert.equal(await cancelling, 'in_progress')
  bench.wire.answerAll(answered(200))
  await bench.quiet()
  assert.deepEqual(await bench.tally(), { delivered: 1 })
})

test('of a retry and a cancel at the same time one wins, and nothing is lost', async (t) => {
  const bench = await openBench(t, { script: (_, tries) => answered(tries === 1 ? 503 : 200) })
  await bench.add()
  await bench.send()
  await bench.quiet()
  const { id } = (await bench.deliveries())[0]!.delivery
  const [retried, cancelled] = await Promise.all([bench.dispatcher.retry(id), bench.dispatcher.cancel(id)])
  await bench.quiet()
  const { delivery } = (await bench.store.getDelivery(id))!
  const outcome = `${retried} ${cancelled} ${delivery.status}`
  const allowed = [
    'retried in_progress delivered',
    'retried settled delivered',
    'retried cancelled failed',
    // The cancel came first, and the retry brought the dead letter back.
    'retried cancelled delivered',
  ]
  assert.ok(allowed.includes(outcome), outcome)
})

const everything = { before: null, limit: Number.MAX_SAFE_INTEGER, audit: () => {} }

test('what waits is cancelled in bulk: one notice each, none is tried for it, and what is in flight stays', async (t) => {
  const bench = await openBench(t, { script: () => 'hold' })
  const endpoint = await bench.add({ types: ['order.*'], ordering: 'endpoint' })
  const other = await bench.add({ types: ['invoice.*'], ordering: 'endpoint' })
  for (let n = 1; n <= 4; n++) await bench.send({ n })
  await bench.send({ type: 'invoice.paid' })
  await bench.quiet()
  const audited: number[] = []
  const cancelling = bench.dispatcher.cancelMatching(
    { endpointId: endpoint.id, type: 'order.*' },
    { ...everything, audit: (cancelled) => audited.push(cancelled) },
  )
  await bench.pass(1_000)
  assert.deepEqual(await cancelling, { cancelled: 3, next: null })
  assert.deepEqual(audited, [3])
  assert.deepEqual(await bench.tally(endpoint.id), { processing: 1, failed: 3 })
  const ended = bench.heard.filter((notice) => notice.kind === 'delivery.ended')
  assert.deepEqual(
    ended.map(({ reason, status, endpointId, type }) => [reason, status, endpointId, type]),
    Array(3).fill(['cancelled', 'failed', endpoint.id, 'order.created']),
  )
  assert.equal(new Set(ended.map(({ deliveryId }) => deliveryId)).size, 3)
  bench.wire.answerAll(answered(200))
  await bench.quiet()
  assert.equal(bench.wire.triesOf(endpoint).length, 1)
  assert.deepEqual(await bench.tally(other.id), { delivered: 1 })
})

test('a lane goes on at once with what was not cancelled, behind a head that was', async (t) => {
  const bench = await openBench(t, { script: (parcel) => answered(numberIn(parcel) === 1 ? 503 : 200) })
  const endpoint = await bench.add({ ordering: 'endpoint' })
  for (const n of [1, 2]) await bench.send({ n })
  await bench.send({ n: 3, type: 'order.kept' })
  await bench.quiet()
  const cancelling = bench.dispatcher.cancelMatching({ type: 'order.created' }, everything)
  await bench.pass(100)
  assert.equal((await cancelling).cancelled, 2)
  await bench.quiet()
  assert.deepEqual(
    bench.wire.triesOf(endpoint).map((one) => numberIn(one.parcel)),
    [1, 3],
  )
})

test('a bulk cancel with a limit says where to go on, and what arrived meanwhile is not meant', async (t) => {
  const bench = await openBench(t, { paused: true })
  await bench.add()
  for (let n = 1; n <= 3; n++) await bench.send({ n })
  const cancel = async (before: string | null) => {
    const cancelling = bench.dispatcher.cancelMatching({}, { ...everything, before, limit: 2 })
    await bench.pass(100)
    return cancelling
  }
  const first = await cancel(null)
  assert.equal(first.cancelled, 2)
  assert.notEqual(first.next, null)
  await bench.send({ n: 4 })
  assert.deepEqual(await cancel(first.next), { cancelled: 1, next: null })
  assert.deepEqual(await bench.tally(), { failed: 3, pending: 1 })
})
