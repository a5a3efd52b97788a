import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Breaker } from '../../src/core/circuit-breaker.ts'
import { closedBreaker } from '../../src/core/circuit-breaker.ts'
import { newborn, type Pending } from '../../src/core/delivery.ts'
import { type Surroundings, type WaitsFor, waitOf, waits } from '../../src/core/waiting.ts'
import { aHandler, anEndpoint, t0 } from '../support/builders.ts'

const facts = newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt: t0 })
const pending = (dueAt: number | null): Pending => ({ ...facts, status: 'pending', dueAt })
const { url: _, forwardHeaders: __, disableAfterMs: ___, ...rules } = anEndpoint({ breaker: null })
const relayed = { ...rules, kind: 'relay', relay: 'home', route: 'github' } as const
const usual: Surroundings = {
  ...{ endpoint: anEndpoint(), served: true, lacksRoute: false, allPaused: false },
  ...{ breaker: closedBreaker, heldUntil: null, now: t0 },
}
const waitsFor = (...given: Parameters<typeof waitOf>) => waitOf(...given)?.for ?? null
const open: Breaker = { state: 'open', failures: 3, openedAt: t0, until: t0 + 50 }
const probing: Breaker = { state: 'half_open', failures: 3, openedAt: t0, probeStartedAt: t0, until: t0 + 60_000 }

test('a delivery that is due at an endpoint that takes it waits for nothing', () => {
  assert.equal(waitsFor(pending(t0), usual), null)
  assert.equal(waitsFor(pending(t0 - 1), usual), null)
  assert.equal(waitsFor(pending(t0), { ...usual, breaker: { ...open, until: t0 }, heldUntil: t0 }), null)
})

test('every reason to wait has its word', () => {
  const table: readonly (readonly [WaitsFor, number | null, Partial<Surroundings>])[] = [
    ['all_paused', t0, { allPaused: true, endpoint: anEndpoint({ status: 'paused' }) }],
    ['paused', t0, { endpoint: anEndpoint({ status: 'paused' }), heldUntil: t0 + 9 }],
    ['disabled', null, { endpoint: anEndpoint({ status: 'disabled' }), breaker: open }],
    ['handler', t0 + 9, { endpoint: aHandler(), served: false }],
    ['hub', null, { endpoint: relayed, served: false }],
    ['route', null, { endpoint: relayed, served: false, lacksRoute: true }],
    ['backoff', t0 + 9, {}],
    ['hold', t0, { heldUntil: t0 + 9 }],
    ['breaker', t0, { breaker: open }],
    ['breaker', t0, { breaker: probing }],
    ['lane', null, {}],
  ]
  for (const [word, dueAt, given] of table) assert.equal(waitsFor(pending(dueAt), { ...usual, ...given }), word)
  assert.deepEqual(new Set(table.map(([word]) => word)), new Set(waits))
})

test('of several times it is the one that ends last', () => {
  const both = { ...usual, breaker: open, heldUntil: t0 + 40 }
  assert.equal(waitsFor(pending(t0 + 60), both), 'backoff')
  assert.equal(waitsFor(pending(t0 + 10), both), 'breaker')
  assert.equal(waitsFor(pending(null), both), 'breaker')
  assert.equal(waitsFor(pending(t0 + 10), { ...both, heldUntil: t0 + 51 }), 'hold')
})

test('the end of a wait is said where it is known', () => {
  const table: readonly (readonly [until: number | null, dueAt: number | null, given: Partial<Surroundings>])[] = [
    [t0 + 9, t0 + 9, {}],
    [t0 + 9, t0 - 100, { heldUntil: t0 + 9 }],
    // Long due, and parked: the date of its own backoff is over and says nothing.
    [t0 + 50, t0 - 100, { breaker: open }],
    [null, t0 - 100, { breaker: probing }],
    [null, null, {}],
    [null, t0 + 9, { allPaused: true }],
  ]
  for (const [until, dueAt, given] of table) {
    assert.equal(waitOf(pending(dueAt), { ...usual, ...given })?.until, until)
  }
})

test('a breaker that the endpoint does not have any more keeps nothing waiting', () => {
  assert.equal(waitsFor(pending(t0), { ...usual, endpoint: anEndpoint({ breaker: null }), breaker: open }), null)
})

test('what has ended or is being tried does not wait', () => {
  const surroundings = { ...usual, allPaused: true }
  assert.equal(waitsFor({ ...facts, status: 'processing', leaseEndsAt: t0 }, surroundings), null)
  assert.equal(waitsFor({ ...facts, status: 'delivered', deliveredAt: t0 }, surroundings), null)
  assert.equal(waitsFor({ ...facts, status: 'failed', reason: 'cancelled', settledAt: t0 }, surroundings), null)
})

test('there is a reason exactly when it could not be tried now', () => {
  const time = fc.integer({ min: t0 - 100, max: t0 + 100 })
  const breaker: fc.Arbitrary<Breaker> = fc.oneof(
    fc.constantFrom(closedBreaker, probing),
    time.map((until) => ({ state: 'open' as const, failures: 3, openedAt: t0 - 200, until })),
  )
  fc.assert(
    fc.property(fc.option(time), fc.option(time), breaker, (dueAt, heldUntil, state) => {
      const isKept =
        dueAt === null ||
        dueAt > t0 ||
        (heldUntil ?? 0) > t0 ||
        state === probing ||
        ('until' in state && state.until > t0)
      assert.equal(waitsFor(pending(dueAt), { ...usual, heldUntil, breaker: state }) !== null, isKept)
    }),
  )
})
