import assert from 'node:assert/strict'
import type { Attempt } from '../../../src/core/attempt.ts'
import type { BornEnded } from '../../../src/core/lifecycle.ts'
import { aNewDelivery, anArrival, anEvent, aReplay, t0 } from '../../support/builders.ts'
import { claimDue, only, type Promised, statusOf, withEndpoint } from './promises.ts'

const attempt: Attempt = {
  number: 4,
  startedAt: t0 - 20,
  tookMs: 15,
  outcome: 'retryable',
  statusCode: null,
  error: 'TypeError: no total',
  responseHeaders: null,
  responseBody: null,
  errorClass: 'TypeError',
  dependency: 'crm',
  stack: 'at total',
}
const ended: BornEnded = { reason: 'exhausted', at: t0 + 3, attempt }

export function bornEndedContract(promise: Promised): void {
  promise('keeps what was born ended as failed, with its reason and its attempt', async (store, under) => {
    const endpoint = await withEndpoint(store)
    const arrival = anArrival(endpoint, { delivery: { ended, lane: 'k' } })
    const id = arrival.deliveries[0]!.id
    const appended = await store.append([arrival])
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(
      { claimed: appended.items[0]?.claimed, ended: appended.items[0]?.ended },
      { claimed: [false], ended: [0] },
    )
    const again = await under.reopen()
    assert.deepEqual((await again.getDelivery(id))?.delivery, {
      id,
      eventId: arrival.event.id,
      endpointId: endpoint.id,
      lane: 'k',
      receivedAt: t0,
      attempts: 4,
      triesInBudget: 4,
      version: 1,
      retryAfter: null,
      lastError: 'TypeError: no total',
      lastAttemptAt: t0 - 20,
      replayedAt: null,
      status: 'failed',
      reason: 'exhausted',
      settledAt: t0 + 3,
    })
    assert.deepEqual(await again.listAttempts(id), [attempt])
    assert.deepEqual(
      (await again.deadLettersSince(t0)).map(({ reason, count }) => [reason, count]),
      [['exhausted', 1]],
    )
  })

  promise('is not held up by what was born ended, nor by its place in the batch', async (store) => {
    const endpoint = await withEndpoint(store, { ordering: 'key' })
    const event = anEvent()
    const waits = { lane: 'k', leaseEndsAt: t0 + 60_000 }
    const deliveries = [aNewDelivery(endpoint, { ended, lane: 'k' }), aNewDelivery(endpoint, waits)]
    const appended = await store.append([{ event, idempotency: null, deliveries }])
    assert.ok(appended.kind === 'kept')
    assert.deepEqual(only(appended.items).claimed, [false, true])
    assert.deepEqual(only(appended.items).ended, [0])
  })

  promise('keeps the reason of what was born ended, also when its endpoint was removed', async (store) => {
    const endpoint = await withEndpoint(store)
    await store.removeEntry('endpoint', endpoint.id)
    const arrival = anArrival(endpoint, { delivery: { ended } })
    await store.append([arrival])
    const delivery = (await store.getDelivery(arrival.deliveries[0]!.id))?.delivery
    assert.equal(delivery?.status === 'failed' && delivery.reason, 'exhausted')
  })

  promise('replays what was born ended: the numbering of its attempts goes on', async (store) => {
    const endpoint = await withEndpoint(store, { ordering: 'key' })
    const arrival = anArrival(endpoint, { delivery: { ended, lane: 'k' } })
    const id = arrival.deliveries[0]!.id
    await store.append([arrival])
    const { id: job } = await store.createReplay(aReplay({ kind: 'deliveries', filter: { ids: [id] } }))
    await store.stepReplay({ id: job, limit: 10, now: t0 + 50, recover: null, newIds: [] })
    assert.equal(await statusOf(store, id), 'pending')
    const { claims } = await claimDue(store, endpoint, { now: t0 + 60 })
    assert.deepEqual([only(claims).delivery.attempts, only(claims).delivery.triesInBudget], [4, 0])
  })
}
