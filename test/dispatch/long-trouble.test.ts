import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RetryPolicy } from '../../src/core/retry-policy.ts'
import { answered, type Bench, openBench } from '../support/dispatch-bench.ts'

const dayMs = 86_400_000
const hourMs = 3_600_000
/** Goes on every hour, for ever. */
const hourly: RetryPolicy = {
  preset: null,
  strategy: 'schedule',
  delaysMs: [hourMs],
  jitter: { kind: 'ratio', ratio: 0 },
  maxAttempts: null,
  maxAgeMs: null,
}

test('an endpoint with nothing but failures is disabled after its time, and says why', async (t) => {
  const bench = await openBench(t, { script: () => answered(500) })
  const endpoint = await bench.add({ retry: hourly, breaker: null, disableAfterMs: 2 * dayMs })
  await bench.send()
  await bench.quiet()
  await bench.pass(2 * dayMs - 1, hourMs)
  assert.equal(bench.catalogue.get(endpoint.id)?.status, 'active')
  await bench.pass(hourMs)
  const after = bench.catalogue.get(endpoint.id)
  assert.deepEqual([after?.status, after?.statusReason], ['disabled', 'nothing but failures for 2d'])
  const told = bench.heard.filter((notice) => notice.kind === 'endpoint.changed' && notice.status === 'disabled')
  assert.equal(told.length, 1)
  assert.deepEqual(await bench.tally(), { pending: 1 })
})

test('one success gives it all of its time again', async (t) => {
  let isUp = false
  const bench = await openBench(t, { script: () => answered(isUp ? 200 : 500) })
  const endpoint = await bench.add({ retry: hourly, breaker: null, disableAfterMs: dayMs })
  await bench.send()
  await bench.quiet()
  await bench.pass(23 * hourMs, hourMs)
  isUp = true
  await bench.send()
  await bench.quiet()
  isUp = false
  await bench.send()
  await bench.quiet()
  await bench.pass(23 * hourMs, hourMs)
  assert.equal(bench.catalogue.get(endpoint.id)?.status, 'active')
})

test('the failing is counted on through restarts, but a start alone disables nobody', async (t) => {
  const bench = await openBench(t, { script: () => answered(500) })
  const endpoint = await bench.add({ retry: hourly, breaker: null, disableAfterMs: dayMs })
  await bench.send()
  await bench.quiet()
  await bench.pass(20 * hourMs, hourMs)
  const again = await bench.restart()
  // As if it had been switched off for long: what comes first is one failure, and not days of them.
  await again.pass(10 * hourMs)
  assert.equal(again.catalogue.get(endpoint.id)?.status, 'active')
  await again.pass(hourMs)
  assert.equal(again.catalogue.get(endpoint.id)?.status, 'disabled')
})

test('resuming it gives it all of its time again', async (t) => {
  const bench = await openBench(t, { script: () => answered(500) })
  const endpoint = await bench.add({ retry: hourly, breaker: null, disableAfterMs: dayMs })
  await bench.send()
  await bench.quiet()
  await bench.pass(dayMs, hourMs)
  assert.equal(bench.catalogue.get(endpoint.id)?.status, 'disabled')
  await bench.catalogue.update(endpoint.id, (before) => ({ ...before, status: 'active', statusReason: null }))
  await bench.quiet()
  await bench.pass(23 * hourMs, hourMs)
  assert.equal(bench.catalogue.get(endpoint.id)?.status, 'active')
})

test('with `disableAfter` off it may fail for ever, and a clock that was set disables nobody before its time', async (t) => {
  const bench = await openBench(t, { script: () => answered(500) })
  const patient = await bench.add({ retry: hourly, breaker: null, disableAfterMs: null })
  const other = await bench.add({ retry: hourly, breaker: null, disableAfterMs: dayMs })
  await bench.send()
  await bench.quiet()
  bench.time.skewMs = 10 * dayMs
  await bench.pass(23 * hourMs, hourMs)
  assert.equal(bench.catalogue.get(other.id)?.status, 'active')
  await bench.pass(2 * hourMs, hourMs)
  assert.equal(bench.catalogue.get(other.id)?.status, 'disabled', 'it was seen to fail for a day')
  assert.equal(bench.catalogue.get(patient.id)?.status, 'active')
})

test('a head that holds its lane for too long is told of once', async (t) => {
  const bench = await openBench(t, { script: () => answered(503), laneStuckMs: 2 * hourMs })
  const ordered = await bench.add({ ordering: 'endpoint', retry: hourly, breaker: null })
  await bench.add({ ordering: 'none', retry: hourly, breaker: null })
  await bench.send()
  await bench.quiet()
  const head = (await bench.deliveries(ordered.id))[0]!.delivery.id
  assert.deepEqual(stuck(bench), [], 'its next try comes early enough')
  await bench.pass(hourMs)
  assert.deepEqual(stuck(bench), [head], 'the one after it does not')
  await bench.pass(5 * hourMs, hourMs)
  assert.deepEqual(stuck(bench), [head])
  assert.ok(bench.logged.includes('lane.stuck'))
})

test('resetting a breaker lets the parked ones go, at the ramp, and ends the hold', async (t) => {
  let isUp = false
  const script = () => (isUp ? ('hold' as const) : answered(503, { 'retry-after': '3600' }))
  const bench = await openBench(t, { script })
  const endpoint = await bench.add({ breaker: { threshold: 1, cooldownMs: dayMs, whenOpen: 'park' } })
  for (let n = 0; n < 5; n++) await bench.send({ n })
  await bench.quiet()
  await bench.pass(2 * hourMs, hourMs)
  assert.equal(bench.dispatcher.conditionOf(endpoint.id).breaker.state, 'open')
  isUp = true
  assert.equal(bench.dispatcher.resetBreaker(endpoint.id), true)
  await bench.quiet()
  assert.deepEqual(bench.dispatcher.conditionOf(endpoint.id).breaker, { state: 'closed', failures: 0, ramp: 1 })
  assert.equal(bench.dispatcher.conditionOf(endpoint.id).heldUntil, null)
  assert.equal(bench.wire.open.size, 1)
  while ((await bench.tally()).delivered !== 5) {
    bench.wire.answerAll(answered(200))
    await bench.quiet()
  }
  assert.equal(bench.dispatcher.resetBreaker('ep_none'), false)
})

function stuck({ heard }: Bench): string[] {
  return heard.flatMap((notice) => (notice.kind === 'lane.stuck' ? [notice.deliveryId] : []))
}
