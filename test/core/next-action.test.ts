import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Allowance } from '../../src/core/circuit-breaker.ts'
import {
  type Gate,
  gate,
  hasSlot,
  type Load,
  type NextAction,
  nextAction,
  type Situation,
  type Standing,
  type StandingFacts,
  standingOf,
} from '../../src/core/next-action.ts'

const well: StandingFacts = { status: 'active', served: true, leaving: false, removed: false, halted: false }

const standings: readonly (readonly [Partial<StandingFacts>, Standing])[] = [
  [{}, 'serving'],
  [{ status: 'paused' }, 'paused'],
  [{ status: 'disabled' }, 'disabled'],
  [{ served: false }, 'unserved'],
  [{ leaving: true }, 'leaving'],
  [{ halted: true }, 'halted'],
  [{ removed: true }, 'removed'],
  [{ removed: true, status: 'paused', served: false, leaving: true, halted: true }, 'removed'],
  [{ status: 'paused', served: false, leaving: true, halted: true }, 'paused'],
  [{ served: false, leaving: true, halted: true }, 'leaving'],
  [{ served: false, halted: true }, 'unserved'],
]

for (const [changed, expected] of standings) {
  test(`an endpoint with ${JSON.stringify(changed)} is ${expected}`, () => {
    assert.equal(standingOf({ ...well, ...changed }), expected)
  })
}

const open: Allowance = { kind: 'open_to', limit: null }
const closedUntil = (until: number | null): Allowance => ({ kind: 'wait', until })
const now = 1_000

const calm: Situation = {
  standing: 'serving',
  ready: 0,
  urgent: 0,
  inTurn: false,
  inHand: 0,
  window: 64,
  nextDueAt: null,
  allowed: open,
  refuses: false,
}

const rest: NextAction = { kind: 'rest' }
const all: NextAction = { kind: 'hand_back', which: 'all' }

const actions: readonly (readonly [string, Partial<Situation>, NextAction])[] = [
  ['nothing anywhere', {}, rest],
  ['something in memory', { ready: 1, inHand: 1 }, { kind: 'start' }],
  ['something urgent in memory', { urgent: 1, inHand: 1 }, { kind: 'start' }],
  ['something in memory that waits for its turn', { ready: 1, inHand: 1, inTurn: true }, rest],
  ['something due in the store', { nextDueAt: now }, { kind: 'claim', limit: 64 }],
  ['something due later', { nextDueAt: now + 1 }, { kind: 'wait', until: now + 1 }],
  ['half of the window free', { nextDueAt: now, inHand: 32 }, { kind: 'claim', limit: 32 }],
  ['less than half of the window free', { nextDueAt: now, inHand: 33 }, rest],
  ['a full window', { nextDueAt: now, inHand: 64 }, rest],
  ['a probe', { nextDueAt: now, allowed: { kind: 'probe' } }, { kind: 'claim', limit: 1 }],
  ['a probe, and something in hand', { nextDueAt: now, allowed: { kind: 'probe' }, inHand: 1 }, rest],
  [
    'a wait, and something in memory',
    { ready: 1, inHand: 1, allowed: closedUntil(9_000) },
    { kind: 'hand_back', which: 'ready' },
  ],
  ['a wait, and something urgent in memory', { urgent: 1, inHand: 1, allowed: closedUntil(9_000) }, { kind: 'start' }],
  ['a wait, and something due', { nextDueAt: now, allowed: closedUntil(9_000) }, { kind: 'wait', until: 9_000 }],
  [
    'a wait, and something due after it',
    { nextDueAt: 9_500, allowed: closedUntil(9_000) },
    { kind: 'wait', until: 9_500 },
  ],
  ['a probe under way, and something due', { nextDueAt: now, allowed: closedUntil(null) }, rest],
  [
    'a breaker that refuses, and something due',
    { nextDueAt: now, allowed: closedUntil(9_000), refuses: true },
    { kind: 'refuse', limit: 64 },
  ],
  [
    'a breaker that refuses, and something due later',
    { nextDueAt: now + 1, allowed: closedUntil(9_000), refuses: true },
    { kind: 'wait', until: now + 1 },
  ],
  ['a pause, and something in memory', { standing: 'paused', ready: 1, inHand: 1 }, all],
  ['a pause, and something due in the store', { standing: 'paused', nextDueAt: now }, rest],
  ['nobody who serves it, and something urgent', { standing: 'unserved', urgent: 1, inHand: 1 }, all],
  ['its removal, and something due in the store', { standing: 'removed', nextDueAt: now }, all],
  ['its removal, and nothing', { standing: 'removed' }, rest],
]

for (const [what, changed, expected] of actions) {
  test(`what an endpoint does next with ${what}`, () => {
    assert.deepEqual(nextAction({ ...calm, ...changed }, now), expected)
  })
}

const load: Load = { concurrency: 2, onWire: 0, answered: 0 }

const gates: readonly (readonly [Partial<Load>, Allowance, boolean, Gate])[] = [
  [{}, open, false, 'attempt'],
  [{ onWire: 1 }, open, false, 'attempt'],
  [{ onWire: 2 }, open, false, 'wait'],
  [{ answered: 2 }, open, false, 'wait'],
  [{ onWire: 1, answered: 1 }, open, false, 'attempt'],
  [{ onWire: 1 }, { kind: 'open_to', limit: 1 }, false, 'wait'],
  [{ answered: 1 }, { kind: 'open_to', limit: 1 }, false, 'wait'],
  [{}, { kind: 'probe' }, false, 'probe'],
  [{ onWire: 2 }, { kind: 'probe' }, false, 'wait'],
  [{}, closedUntil(9_000), false, 'wait'],
  [{}, closedUntil(9_000), true, 'refuse'],
]

for (const [changed, allowed, refuses, expected] of gates) {
  test(`with ${JSON.stringify(changed)} and ${JSON.stringify(allowed)} a delivery gets: ${expected}`, () => {
    assert.equal(gate({ ...load, ...changed }, allowed, refuses), expected)
  })
}

test('no attempt begins without a slot, whatever else is allowed', () => {
  const count = fc.integer({ min: 0, max: 4 })
  fc.assert(
    fc.property(
      count,
      count,
      count,
      fc.constantFrom<Allowance>(open, { kind: 'probe' }, closedUntil(null)),
      (...given) => {
        const [concurrency, onWire, answered, allowed] = given
        const full = { concurrency, onWire, answered }
        if (!hasSlot(full)) assert.equal(gate(full, allowed, true), 'wait')
      },
    ),
  )
})
