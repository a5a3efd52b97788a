import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Delivery, deliveryOf, deliveryStatuses, newborn } from '../../src/core/delivery.ts'
import {
  cancellable,
  deadOnly,
  discardable,
  isOfMissing,
  isRecovery,
  mayCancel,
  mayDiscard,
  mayEndUnserved,
  mayExpire,
  mayGoAgain,
  mayRecover,
  mayRecoverTo,
  mayRequeue,
  mayRetry,
  type Recovery,
  reachesTenant,
  recoverOnly,
  recoveryProblem,
  recoveryStep,
  replayable,
  selectedDeliveries,
  selectionStart,
} from '../../src/core/selection.ts'

test('a replay means dead letters, unless other statuses are named', () => {
  assert.deepEqual(replayable({ type: 'a' }).statuses, ['failed', 'dead_letter'])
  assert.deepEqual(replayable({ statuses: ['delivered', 'failed'] }).statuses, ['delivered', 'failed'])
})

test('a replay never means what is still under way', () => {
  assert.deepEqual(replayable({ statuses: ['pending', 'processing', 'dead_letter'] }).statuses, ['dead_letter'])
})

test('only a recovery of what is missing means none of the deliveries that exist', () => {
  const recover = { kind: 'recover', endpointId: 'ep_1', since: 0 } as const
  const meant = recoverOnly.map((only) => isOfMissing({ ...recover, only }))
  assert.deepEqual(meant, [false, true, false])
  assert.equal(isOfMissing({ kind: 'deliveries', filter: {} }), false)
})

test('a replay leaves out what was cancelled or whose endpoint was deleted, unless asked for by reason', () => {
  assert.deepEqual(replayable({}).exceptReasons, ['cancelled', 'endpoint_deleted'])
  assert.deepEqual(replayable({ reason: 'cancelled' }), { reason: 'cancelled', statuses: ['failed', 'dead_letter'] })
})

test('only a job for what is missing, or for all, makes deliveries', () => {
  const recovers = recoverOnly.filter((only) => isRecovery({ kind: 'recover', endpointId: 'ep_1', since: 0, only }))
  assert.deepEqual(recovers, ['missing', 'all'])
  assert.equal(isRecovery({ kind: 'deliveries', filter: {} }), false)
})

test('a job to recover means dead letters of its endpoint and span, or with all also what was delivered', () => {
  const recover = { kind: 'recover', endpointId: 'ep_1', since: 5 } as const
  const except = { exceptReasons: ['cancelled', 'endpoint_deleted'] }
  assert.deepEqual(selectedDeliveries({ ...recover, until: 9, only: 'failed' }, null), {
    endpointId: 'ep_1',
    from: 5,
    to: 9,
    statuses: ['failed', 'dead_letter'],
    ...except,
  })
  assert.deepEqual(selectedDeliveries({ ...recover, only: 'all' }, 'a'), {
    tenant: 'a',
    endpointId: 'ep_1',
    from: 5,
    statuses: ['delivered', 'failed', 'dead_letter'],
    ...except,
  })
})

test('a job of one tenant never reaches what is of another', () => {
  const own = selectedDeliveries({ kind: 'deliveries', filter: { type: 'a' } }, 'a')
  assert.equal(own.tenant, 'a')
  const foreign = selectedDeliveries({ kind: 'deliveries', filter: { tenant: 'b' } }, 'a')
  assert.deepEqual(foreign.statuses, [])
  assert.deepEqual([reachesTenant(null, 'b'), reachesTenant('b', 'b'), reachesTenant('a', 'b')], [true, true, false])
})

test('a recovery needs its endpoint, of its tenant', () => {
  assert.deepEqual([mayRecoverTo(null, 'b'), mayRecoverTo('b', 'b'), mayRecoverTo('a', 'b')], [true, true, false])
  assert.deepEqual([mayRecoverTo(null, null), mayRecoverTo('a', null)], [false, false])
})

test('only what has ended at an endpoint that is there is requeued', () => {
  const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt: 1 })
  const all = deliveryStatuses.map((status) => deliveryOf(facts, { status, dueAt: 0, settledAt: 0, reason: 'expired' }))
  const open = all.filter((delivery) => mayRequeue(delivery, false)).map(({ status }) => status)
  assert.deepEqual(open, ['delivered', 'failed', 'dead_letter'])
  const gone = all.filter((delivery) => mayRequeue(delivery, true))
  assert.deepEqual(gone, [])
})

test('discard means dead letters that ended soon enough, and cancel what is pending', () => {
  assert.deepEqual(deadOnly({ type: 'a' }), { type: 'a', statuses: ['failed', 'dead_letter'] })
  assert.deepEqual(deadOnly({ statuses: ['delivered', 'failed'] }).statuses, ['failed'])
  assert.deepEqual(discardable({ type: 'a' }, 7), { type: 'a', statuses: ['failed', 'dead_letter'], settledBy: 7 })
  assert.deepEqual(cancellable({ type: 'a', statuses: ['failed'] }), { type: 'a', statuses: ['pending'] })
})

test('a delivery may be cancelled, expired, retried or ended unserved by its status', () => {
  const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt: 1 })
  const deliveries: readonly Delivery[] = [
    { ...facts, status: 'pending', dueAt: null },
    { ...facts, status: 'processing', leaseEndsAt: 8 },
    { ...facts, status: 'processing', leaseEndsAt: 7 },
    { ...facts, status: 'delivered', deliveredAt: 5 },
    { ...facts, status: 'failed', reason: 'exhausted', settledAt: 5 },
    { ...facts, status: 'dead_letter', reason: 'expired', settledAt: 5 },
  ]
  const table = deliveries.map((delivery) => [
    delivery.status,
    mayCancel(delivery),
    mayExpire(delivery),
    mayRetry(delivery),
    mayEndUnserved(delivery, 7),
  ])
  assert.deepEqual(table, [
    ['pending', true, true, true, true],
    ['processing', false, false, false, false],
    ['processing', false, false, false, true],
    ['delivered', false, false, true, false],
    ['failed', false, false, true, false],
    ['dead_letter', false, false, true, false],
  ])
})

test('only a dead letter that ended soon enough is discarded', () => {
  assert.deepEqual(
    deliveryStatuses.filter((status) => mayDiscard(status, 7, 7)),
    ['failed', 'dead_letter'],
  )
  assert.deepEqual([mayDiscard('failed', 8, 7), mayDiscard('failed', null, 7)], [false, false])
})

test('a selection starts where its filter or its span does', () => {
  assert.equal(selectionStart({ kind: 'deliveries', filter: {} }), null)
  assert.equal(selectionStart({ kind: 'deliveries', filter: { from: 7 } }), 7)
  assert.equal(selectionStart({ kind: 'recover', endpointId: 'ep_1', since: 5, only: 'all' }), 5)
})

test('a recovery makes what is missing, and with all sends again what there is', () => {
  const table = (['missing', 'all'] as const).flatMap((only) =>
    [false, true].map((isWanted) => [only, isWanted, recoveryStep(only, isWanted, 0), recoveryStep(only, isWanted, 2)]),
  )
  assert.deepEqual(table, [
    ['missing', false, 'none', 'none'],
    ['missing', true, 'make', 'none'],
    ['all', false, 'none', 'again'],
    ['all', true, 'make', 'again'],
  ])
})

test('a recovery looks at events of its span, and with missing only at those that the endpoint wants', () => {
  const missing: Recovery = { kind: 'recover', endpointId: 'ep_1', since: 5, until: 9, only: 'missing' }
  assert.deepEqual(
    [4, 5, 8, 9].map((receivedAt) => mayRecover(missing, receivedAt, true)),
    [false, true, true, false],
  )
  assert.equal(mayRecover(missing, 5, false), false)
  assert.equal(mayRecover({ ...missing, only: 'all' }, 5, false), true)
  assert.equal(mayRecover({ kind: 'recover', endpointId: 'ep_1', since: 5, only: 'missing' }, 9e9, true), true)
})

test('a recovery sends again what has ended, except for what was cancelled or lost its endpoint', () => {
  assert.equal(mayGoAgain('delivered', null), true)
  assert.equal(mayGoAgain('failed', 'exhausted'), true)
  assert.equal(mayGoAgain('failed', 'cancelled'), false)
  assert.equal(mayGoAgain('failed', 'endpoint_deleted'), false)
  assert.equal(mayGoAgain('pending', null), false)
})

test('a recovery may not begin before the record of what was delivered does', () => {
  const since = (instant: number, only: 'failed' | 'missing' = 'missing') =>
    recoveryProblem({ kind: 'recover', endpointId: 'ep_1', since: instant, only }, 10_000_000, 3_600_000)
  assert.equal(since(10_000_000 - 3_600_000 - 60_000), null)
  assert.match(since(10_000_000 - 3_600_000 - 60_001) ?? '', /on record for 1h/)
  assert.equal(since(0, 'failed'), null)
  assert.equal(recoveryProblem({ kind: 'deliveries', filter: {} }, 0, 0), null)
})
