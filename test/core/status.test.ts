import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { endpointKinds, endpointStatuses } from '../../src/core/endpoint.ts'
import {
  type Attention,
  type AttentionReason,
  attentionFor,
  attentionReasons,
  byUrgency,
  gravityOf,
  hintsFor,
  hintsMax,
  nextProbeAt,
  type Signs,
  stateOf,
  waitingLongMs,
} from '../../src/core/status.ts'
import { t0 } from '../support/builders.ts'

const well: Signs = {
  ...{ endpointId: 'ep_1', kind: 'http', status: 'active', breaker: 'closed', heldUntil: null },
  ...{ served: true, lacksRoute: false, attempts: 0, failedAttempts: 0, waiting: 0, oldestAt: null },
  ...{ deadLetters: 0, deadLettersKept: 0 },
}
const waiting = { waiting: 3, oldestAt: t0 - 1 }
const usual = { ready: true, allPaused: false, clocksApart: false, membersApart: false }
const at = (why: AttentionReason, given: Partial<Signs> = {}): Attention => ({ why, signs: { ...well, ...given } })

describe('an endpoint deserves attention', () => {
  const table: readonly (readonly [why: AttentionReason | null, given: Partial<Signs>])[] = [
    [null, {}],
    [null, { ...waiting }],
    [null, { attempts: 1_000 }],
    ['breaker_open', { breaker: 'open' }],
    ['breaker_open', { breaker: 'half_open' }],
    ['disabled', { status: 'disabled' }],
    ['disabled', { status: 'disabled', breaker: 'open', ...waiting }],
    ['hub_away', { kind: 'relay', served: false, ...waiting }],
    ['route_missing', { kind: 'relay', served: false, lacksRoute: true, ...waiting }],
    ['handler_missing', { kind: 'handler', served: false, ...waiting }],
    // Nobody misses a hub to which nothing is to go.
    [null, { kind: 'relay', served: false }],
    ['dead_letters', { deadLetters: 1, deadLettersKept: 1 }],
    ['dead_letters', { deadLetters: 1, deadLettersKept: null }],
    // All of them were brought back or discarded.
    [null, { deadLetters: 9, deadLettersKept: 0 }],
    [null, { deadLetters: 0, deadLettersKept: 9 }],
    ['failing', { attempts: 5, failedAttempts: 3 }],
    [null, { attempts: 4, failedAttempts: 4 }],
    ['flaky', { attempts: 20, failedAttempts: 1 }],
    [null, { attempts: 19, failedAttempts: 1 }],
    [null, { attempts: 100, failedAttempts: 4 }],
    ['held', { heldUntil: t0 + 1, ...waiting }],
    [null, { heldUntil: t0, ...waiting }],
    [null, { heldUntil: t0 + 1 }],
    ['paused', { status: 'paused', ...waiting }],
    [null, { status: 'paused' }],
    ['waiting_long', { waiting: 1, oldestAt: t0 - waitingLongMs - 1 }],
    [null, { waiting: 1, oldestAt: t0 - waitingLongMs }],
  ]
  for (const [why, given] of table) {
    test(`${why ?? 'not'}: ${JSON.stringify(given)}`, () => assert.equal(attentionFor({ ...well, ...given }, t0), why))
  }

  test('for every reason there is one that has it', () => {
    assert.deepEqual(new Set(table.map(([why]) => why).filter((why) => why !== null)), new Set(attentionReasons))
  })
})

test('no probe comes before a hold ends, and none from a breaker that is not open', () => {
  const open = { state: 'open', failures: 5, openedAt: t0, until: t0 + 5 } as const
  assert.equal(nextProbeAt(open, null), t0 + 5)
  assert.equal(nextProbeAt(open, t0 + 9), t0 + 9)
  assert.equal(nextProbeAt(open, t0 + 1), t0 + 5)
  assert.equal(
    nextProbeAt({ state: 'half_open', failures: 5, openedAt: t0, probeStartedAt: t0, until: t0 + 60 }, t0 + 9),
    null,
  )
})

test('the whole is as bad as the worst of it', () => {
  assert.equal(stateOf([], usual), 'ok')
  assert.equal(stateOf([], { ...usual, ready: false }), 'trouble')
  assert.equal(stateOf([], { ...usual, allPaused: true }), 'degraded')
  assert.equal(stateOf([], { ...usual, clocksApart: true }), 'degraded')
  assert.equal(stateOf([], { ...usual, membersApart: true }), 'degraded')
  assert.deepEqual(hintsFor([], { ...usual, membersApart: true }), ['posthorn doctor'])
  assert.equal(stateOf([at('paused')], usual), 'degraded')
  assert.equal(stateOf([at('paused'), at('breaker_open')], { ...usual, allPaused: true }), 'trouble')
  assert.equal(stateOf([at('disabled')], usual), 'degraded')
  assert.equal(stateOf([at('disabled', { waiting: 1 })], usual), 'trouble')
})

test('what is in trouble comes first, and of that the one with the most at stake', () => {
  const attention = [
    at('waiting_long', { endpointId: 'late', waiting: 9_000 }),
    at('breaker_open', { endpointId: 'small', waiting: 1 }),
    at('dead_letters', { endpointId: 'dead', deadLetters: 500, deadLettersKept: 500 }),
    at('breaker_open', { endpointId: 'large', waiting: 400, deadLetters: 200, deadLettersKept: null }),
  ]
  const sorted = attention.toSorted(byUrgency).map(({ signs }) => signs.endpointId)
  assert.deepEqual(sorted, ['large', 'dead', 'small', 'late'])
})

test('the order is the same however they come', () => {
  const signs = fc.record({
    endpointId: fc.stringMatching(/^ep_[a-z]{3}$/),
    waiting: fc.nat(3),
    deadLetters: fc.nat(3),
  })
  const one = fc.tuple(fc.constantFrom(...attentionReasons), signs).map(([why, given]) => at(why, given))
  const many = fc.uniqueArray(one, { selector: ({ signs }) => signs.endpointId })
  fc.assert(
    fc.property(many, (attention) => {
      assert.deepEqual(attention.toSorted(byUrgency), attention.toReversed().toSorted(byUrgency))
      const gravities = attention.toSorted(byUrgency).map(({ why, signs }) => gravityOf(why, signs))
      assert.ok(!gravities.join(' ').includes('degraded trouble'))
    }),
  )
})

test('there is always something to type next, and never more than fits', () => {
  const anything: fc.Arbitrary<Signs> = fc.record({
    endpointId: fc.stringMatching(/^ep_[a-z]{3}$/),
    kind: fc.constantFrom(...endpointKinds),
    status: fc.constantFrom(...endpointStatuses),
    breaker: fc.constantFrom('closed', 'open', 'half_open'),
    heldUntil: fc.option(fc.integer({ min: t0 - 5, max: t0 + 5 })),
    served: fc.boolean(),
    lacksRoute: fc.boolean(),
    attempts: fc.nat(30),
    failedAttempts: fc.nat(30),
    waiting: fc.nat(3),
    oldestAt: fc.option(fc.integer({ min: t0 - 2 * waitingLongMs, max: t0 })),
    deadLetters: fc.nat(3),
    deadLettersKept: fc.option(fc.nat(3)),
  })
  fc.assert(
    fc.property(fc.array(anything), fc.boolean(), fc.boolean(), (all, ready, allPaused) => {
      const attention = all.flatMap((signs) => {
        const why = attentionFor(signs, t0)
        return why === null ? [] : [{ why, signs }]
      })
      const hints = hintsFor(attention.toSorted(byUrgency), { ...usual, ready, allPaused })
      assert.ok(hints.length >= 1 && hints.length <= hintsMax)
      assert.equal(new Set(hints).size, hints.length)
      for (const hint of hints) assert.match(hint, /^posthorn [a-z]+/)
    }),
  )
})

test('what is to be typed fits what is wrong', () => {
  assert.deepEqual(hintsFor([], usual), ['posthorn tail'])
  assert.deepEqual(hintsFor([], { ...usual, ready: false, allPaused: true }), [
    'posthorn doctor',
    'posthorn dispatch resume',
  ])
  assert.deepEqual(hintsFor([at('breaker_open', { deadLetters: 2, deadLettersKept: 1 })], usual), [
    'posthorn dlq list --endpoint ep_1 --group error',
    'posthorn breakers list --state open',
  ])
  assert.deepEqual(hintsFor([at('breaker_open', waiting)], usual), [
    'posthorn deliveries list --endpoint ep_1 --status pending',
    'posthorn breakers list --state open',
  ])
  assert.deepEqual(hintsFor([at('hub_away'), at('route_missing')], usual), ['posthorn relays list'])
})

test('dead letters that were replayed since do not put an endpoint before one that is down', () => {
  const signs = { ...well, endpointId: 'ep_repaired', deadLetters: 60, deadLettersKept: 1 }
  const repaired = { why: 'dead_letters', signs } as const
  const down = { why: 'breaker_open', signs: { ...well, endpointId: 'ep_down', waiting: 20 } } as const
  assert.deepEqual([repaired, down].toSorted(byUrgency), [down, repaired])
})

test('an open breaker behind which nothing waits is not looked at by a list that is empty', () => {
  const idle = { why: 'breaker_open', signs: { ...well, endpointId: 'ep_idle' } } as const
  assert.deepEqual(hintsFor([idle], usual), ['posthorn breakers list --state open'])
})
