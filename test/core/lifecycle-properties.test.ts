import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Delivery, newborn, type Pending, type Processing, type Settled } from '../../src/core/delivery.ts'
import {
  afterAttempt,
  ageLimit,
  ended,
  expired,
  handedBack,
  hurried,
  oursPauseMs,
  replayed,
} from '../../src/core/lifecycle.ts'
import { type Outcome, type Reason, reasons } from '../../src/core/outcome.ts'
import { longestDelay, presetNames, presets, type RetryPolicy } from '../../src/core/retry-policy.ts'

const bornAt = 1_800_000_000_000
const day = 86_400_000

const born: Pending = {
  ...newborn({ id: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1', lane: null, receivedAt: bornAt }),
  status: 'pending',
  dueAt: bornAt,
}

const reason = fc.constantFrom<Reason>(...reasons)
const retryAfterMs = fc.option(fc.nat({ max: day }))
const outcome: fc.Arbitrary<Outcome> = fc.oneof(
  { weight: 1, arbitrary: fc.constant<Outcome>({ kind: 'delivered' }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('permanent' as const), reason, error: fc.constant('no') }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('retryable' as const), error: fc.constant('later'), retryAfterMs }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('unavailable' as const), error: fc.constant('down'), retryAfterMs }),
  },
  { weight: 2, arbitrary: fc.constant<Outcome>({ kind: 'ours', error: 'EMFILE' }) },
)

type Act =
  | { do: 'try'; outcome: Outcome; probe: boolean; random: number }
  | { do: 'release' | 'hurry' | 'replay' | 'expire' }
  | { do: 'end'; reason: Reason }
type Step = { act: Act; clock: number }

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('try' as const),
      outcome,
      probe: fc.boolean(),
      random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom('release', 'hurry', 'replay', 'expire') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('end' as const), reason }) },
)
/** The clock mostly runs, and sometimes jumps either way. */
const clock = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: day }) },
  { weight: 1, arbitrary: fc.integer({ min: -30 * day, max: 30 * day }) },
)
const story = fc.array(fc.record({ act, clock }), { maxLength: 60 })

const policy: fc.Arbitrary<RetryPolicy> = fc
  .tuple(
    fc.constantFrom(...presetNames),
    fc.option(fc.integer({ min: 1, max: 8 })),
    fc.option(fc.integer({ min: 1, max: 30 * day })),
  )
  .map(([name, maxAttempts, maxAgeMs]) => ({ ...presets[name], maxAttempts, maxAgeMs }))

function claimed({ dueAt: _, ...rest }: Pending): Processing {
  return { ...rest, status: 'processing', version: rest.version + 1, leaseEndsAt: 0 }
}

/** What the act makes of the delivery; null when its status does not allow it. */
function perform(
  delivery: Pending | Settled,
  act: Act,
  rules: RetryPolicy,
  now: number,
): [Delivery, Pending | Settled] | null {
  if (delivery.status !== 'pending') return act.do === 'replay' ? [delivery, replayed(delivery, now)] : null
  const taken = Object.freeze(claimed(delivery))
  switch (act.do) {
    case 'try':
      return [
        taken,
        afterAttempt(taken, act.outcome, {
          policy: rules,
          random: act.random,
          now,
          ages: { now, correction: null },
          probe: act.probe,
        }),
      ]
    case 'release':
      return [taken, handedBack(taken, now)]
    case 'hurry':
      return [delivery, hurried(delivery, now)]
    case 'expire':
      return [delivery, expired(delivery, now)]
    case 'end':
      return [delivery, ended(delivery, act.reason, now)]
    case 'replay':
      return null
  }
}

const fieldsOf: Record<Exclude<Delivery['status'], 'processing'>, string[]> = {
  pending: ['dueAt'],
  delivered: ['deliveredAt'],
  failed: ['reason', 'settledAt'],
  dead_letter: ['reason', 'settledAt'],
}
const commonFields = Object.keys(born).filter((field) => field !== 'dueAt')

function checkShape(next: Pending | Settled): void {
  assert.deepEqual(Object.keys(next).sort(), [...commonFields, ...fieldsOf[next.status]].sort())
  if (next.status === 'failed' || next.status === 'dead_letter') assert.ok(reasons.includes(next.reason))
  if (next.status === 'delivered') assert.equal(next.lastError, null)
  if (next.status !== 'pending') assert.equal(next.retryAfter, null)
}

function checkFaithful(before: Delivery, next: Delivery): void {
  assert.equal(next.version, before.version + 1)
  for (const field of ['id', 'eventId', 'endpointId', 'lane', 'receivedAt'] as const) {
    assert.equal(next[field], before[field])
  }
  assert.ok(next.attempts === before.attempts || next.attempts === before.attempts + 1)
}

function checkTry(
  before: Delivery,
  next: Pending | Settled,
  act: Extract<Act, { do: 'try' }>,
  rules: RetryPolicy,
  now: number,
) {
  if (next.status === 'pending') {
    assert.ok(act.outcome.kind !== 'delivered' && act.outcome.kind !== 'permanent')
    const wait = (next.dueAt ?? Number.NaN) - now
    const asked = 'retryAfterMs' in act.outcome ? (act.outcome.retryAfterMs ?? 0) : oursPauseMs
    assert.ok(wait >= asked && wait <= Math.max(asked, longestDelay(rules)), `waits ${wait}`)
    if (act.outcome.kind !== 'ours') assert.equal(next.retryAfter, next.dueAt)
  }
  if (next.status === 'dead_letter') assert.ok(now >= (ageLimit(before, rules) ?? Number.POSITIVE_INFINITY))
  if (next.status === 'failed' && next.reason === 'exhausted' && act.outcome.kind !== 'permanent') {
    assert.ok(next.triesInBudget >= (rules.maxAttempts ?? Number.POSITIVE_INFINITY))
  }
}

test('no story loses a delivery, overspends its budget, leaves an end except by replay, or waits outside its policy', () => {
  fc.assert(
    fc.property(policy, story, (rules, steps: readonly Step[]) => {
      let delivery: Pending | Settled = born
      let now = bornAt
      let spentSinceReplay = 0
      for (const { act: each, clock: passed } of steps) {
        now += passed
        const turn = perform(delivery, each, rules, now)
        if (turn === null) continue
        const [before, next] = turn
        checkShape(next)
        checkFaithful(before, next)
        if (each.do === 'try') checkTry(before, next, each, rules, now)

        const isFailedProbe = each.do === 'try' && each.probe && 'retryAfterMs' in each.outcome
        if (each.do === 'replay') spentSinceReplay = 0
        else if (each.do === 'try' && each.outcome.kind !== 'ours' && !isFailedProbe) spentSinceReplay += 1
        assert.equal(next.triesInBudget, spentSinceReplay)
        assert.ok(spentSinceReplay <= (rules.maxAttempts ?? Number.POSITIVE_INFINITY))
        delivery = next
      }
    }),
    { numRuns: 3_000 },
  )
})

test('transitions do not touch what they were given', () => {
  fc.assert(
    fc.property(policy, story, (rules, steps: readonly Step[]) => {
      let delivery: Pending | Settled = Object.freeze(born)
      for (const { act: each } of steps) {
        const turn = perform(delivery, each, rules, bornAt)
        if (turn !== null) delivery = Object.freeze(turn[1])
      }
    }),
  )
})
