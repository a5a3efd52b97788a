import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type Allowance, unlimited, type WhileOpen } from '../../src/core/circuit-breaker.ts'
import {
  type Gate,
  gate,
  isCrowded,
  type Load,
  mayReserve,
  type NextAction,
  type NextStart,
  nextAction,
  nextStart,
  type Outlook,
  passage,
  type Situation,
  type Standing,
  type StandingFacts,
  standingOf,
  type Turn,
  urgentGate,
  wantsNext,
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

const closedUntil = (until: number): Allowance => ({ kind: 'wait', until })
const now = 1_000

const calm: Situation = {
  standing: 'serving',
  ready: 0,
  urgent: 0,
  inTurn: false,
  inHand: 0,
  window: 64,
  nextDueAt: null,
  allowed: unlimited,
  open: null,
  keptOut: false,
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
  [
    'a breaker that refuses, and something due',
    { nextDueAt: now, allowed: closedUntil(9_000), open: 'fail' },
    { kind: 'refuse', limit: 64 },
  ],
  [
    'a breaker that refuses, and something due later',
    { nextDueAt: now + 1, allowed: closedUntil(9_000), open: 'fail' },
    { kind: 'wait', until: now + 1 },
  ],
  ['a pause, and something in memory', { standing: 'paused', ready: 1, inHand: 1 }, all],
  ['a pause, and something due in the store', { standing: 'paused', nextDueAt: now }, rest],
  ['nobody who serves it, and something urgent', { standing: 'unserved', urgent: 1, inHand: 1 }, all],
  ['a suspect that runs alone, and something due', { keptOut: true, nextDueAt: now }, { kind: 'keep_out' }],
  ['a suspect that runs alone, and something due later', { keptOut: true, nextDueAt: now + 1 }, { kind: 'keep_out' }],
  ['a suspect that runs alone, and something in memory', { keptOut: true, ready: 1, inHand: 1 }, { kind: 'start' }],
  ['a suspect that runs alone, and nothing', { keptOut: true }, rest],
  ['its removal, and something in memory', { standing: 'removed', ready: 1, inHand: 1 }, { kind: 'end' }],
  ['its removal, and something due in the store', { standing: 'removed', nextDueAt: now }, { kind: 'end' }],
  ['its removal, and nothing', { standing: 'removed' }, rest],
]

for (const [what, changed, expected] of actions) {
  test(`what an endpoint does next with ${what}`, () => {
    assert.deepEqual(nextAction({ ...calm, ...changed }, now), expected)
  })
}

const load: Load = { concurrency: 2, onWire: 0, answered: 0 }

const gates: readonly (readonly [Partial<Load>, Allowance, WhileOpen, Gate])[] = [
  [{}, unlimited, null, 'attempt'],
  [{ onWire: 1 }, unlimited, null, 'attempt'],
  [{ onWire: 2 }, unlimited, null, 'wait'],
  [{ answered: 2 }, unlimited, null, 'wait'],
  [{ onWire: 1, answered: 1 }, unlimited, null, 'attempt'],
  [{ onWire: 1 }, { kind: 'open_to', limit: 1 }, null, 'wait'],
  [{ answered: 1 }, { kind: 'open_to', limit: 1 }, null, 'wait'],
  [{}, { kind: 'probe' }, 'park', 'probe'],
  [{}, { kind: 'probe' }, 'fail', 'probe'],
  [{ onWire: 2 }, { kind: 'probe' }, 'park', 'wait'],
  // A hold: the breaker is closed.
  [{}, closedUntil(9_000), null, 'wait'],
  [{}, closedUntil(9_000), 'park', 'wait'],
  [{}, closedUntil(9_000), 'fail', 'refuse'],
  [{ onWire: 2 }, closedUntil(now + 60_000), 'park', 'wait'],
  [{ onWire: 2 }, closedUntil(now + 60_000), 'fail', 'refuse'],
]

for (const [changed, allowed, whileOpen, expected] of gates) {
  const given = `${JSON.stringify(changed)}, ${JSON.stringify(allowed)} and ${whileOpen}`
  test(`with ${given} a delivery gets: ${expected}`, () => {
    assert.equal(gate({ ...load, ...changed }, allowed, whileOpen), expected)
  })
}

const urgentGates: readonly (readonly [Partial<Load>, WhileOpen, Gate])[] = [
  [{}, null, 'attempt'],
  [{}, 'park', 'probe'],
  [{}, 'fail', 'probe'],
  [{ onWire: 2 }, null, 'wait'],
  [{ answered: 2 }, 'park', 'wait'],
]

for (const [changed, whileOpen, expected] of urgentGates) {
  test(`with ${JSON.stringify(changed)} and ${whileOpen} a person's retry gets: ${expected}`, () => {
    assert.equal(urgentGate({ ...load, ...changed }, whileOpen), expected)
  })
}

const first: Turn = {
  standing: 'serving',
  load,
  allowed: unlimited,
  open: null,
  isUrgent: false,
  mayProbe: false,
  leaseEndsAt: now + 60_000,
  timeoutMs: 15_000,
  tokenAt: null,
}
const started: NextStart = { kind: 'start', probe: false }
const probed: NextStart = { kind: 'start', probe: true }
const resting: NextStart = { kind: 'rest' }
const probeDue: Partial<Turn> = { allowed: { kind: 'probe' }, open: 'park' }

const turns: readonly (readonly [string, Partial<Turn>, NextStart])[] = [
  ['nothing against it', {}, started],
  ['a pause', { standing: 'paused' }, resting],
  ['no slot', { load: { ...load, onWire: 2 } }, resting],
  ['an open breaker', { allowed: closedUntil(9_000), open: 'park' }, resting],
  ['an open breaker that refuses', { allowed: closedUntil(9_000), open: 'fail' }, resting],
  ['a probe that is due', probeDue, { kind: 'ask_probe' }],
  ['a probe that was granted', { ...probeDue, mayProbe: true }, probed],
  ["a person's retry past an open breaker", { allowed: closedUntil(9_000), open: 'park', isUrgent: true }, probed],
  ["a person's retry past a hold", { allowed: closedUntil(9_000), isUrgent: true }, started],
  ["a person's retry in a pause", { standing: 'paused', isUrgent: true }, resting],
  ['a lease that ends with the attempt', { leaseEndsAt: now + 15_000 }, started],
  ['a lease that ends before the attempt', { leaseEndsAt: now + 14_999 }, { kind: 'hand_back' }],
  ['a lease that is too short for a probe', { ...probeDue, leaseEndsAt: now }, { kind: 'ask_probe' }],
  ['no token before later', { tokenAt: now + 100 }, { kind: 'wait', until: now + 100 }],
  ['no token and too short a lease', { tokenAt: now + 100, leaseEndsAt: now }, { kind: 'hand_back' }],
  ['no token and no slot', { tokenAt: now + 100, load: { ...load, onWire: 2 } }, resting],
]

for (const [what, changed, expected] of turns) {
  test(`what becomes of the first in memory with ${what}`, () => {
    assert.deepEqual(nextStart({ ...first, ...changed }, now), expected)
  })
}

const count = fc.integer({ min: 0, max: 4 })
const loads = fc.record({ concurrency: count, onWire: count, answered: count })
const allowances = fc.constantFrom<Allowance>(unlimited, { kind: 'probe' }, closedUntil(now + 60_000))
const whilesOpen = fc.constantFrom<WhileOpen>(null, 'park', 'fail')
const starts = (given: Gate) => given === 'attempt' || given === 'probe'

test('no attempt begins without a slot, whatever else is allowed', () => {
  fc.assert(
    fc.property(loads, allowances, whilesOpen, (given, allowed, whileOpen) => {
      if (given.onWire < given.concurrency && given.answered < given.concurrency) return
      assert.equal(starts(gate(given, allowed, whileOpen)), false)
      assert.equal(urgentGate(given, whileOpen), 'wait')
    }),
  )
})

test('the load of an endpoint only puts attempts off', () => {
  fc.assert(
    fc.property(loads, allowances, whilesOpen, (given, allowed, whileOpen) => {
      const passed = passage(allowed, whileOpen)
      const gated = gate(given, allowed, whileOpen)
      assert.ok(gated === passed || (starts(passed) && gated === 'wait'))
    }),
  )
})

const idle: Outlook = { standing: 'serving', inHand: 0, window: 64, nextDueAt: null, isClaiming: false }
const probing: Allowance = { kind: 'probe' }

const outlooks: readonly (readonly [string, Partial<Outlook>, Allowance, { reserves: boolean; crowded: boolean }])[] = [
  ['nothing anywhere', {}, unlimited, { reserves: true, crowded: false }],
  ['room in its window', { inHand: 63 }, unlimited, { reserves: true, crowded: false }],
  ['a full window', { inHand: 64 }, unlimited, { reserves: false, crowded: false }],
  ['something due later', { nextDueAt: now + 1 }, unlimited, { reserves: true, crowded: false }],
  ['something due in the store', { nextDueAt: now }, unlimited, { reserves: false, crowded: true }],
  ['a claim under way', { isClaiming: true }, unlimited, { reserves: false, crowded: true }],
  ['a limit after a probe', {}, { kind: 'open_to', limit: 1 }, { reserves: true, crowded: false }],
  ['a probe', {}, probing, { reserves: false, crowded: false }],
  ['a probe, and something due', { nextDueAt: now }, probing, { reserves: false, crowded: true }],
  ['a wait', {}, closedUntil(9_000), { reserves: false, crowded: false }],
  ['a wait, and something due', { nextDueAt: now }, closedUntil(9_000), { reserves: false, crowded: false }],
  ['a pause', { standing: 'paused' }, unlimited, { reserves: false, crowded: false }],
  [
    'a pause, and something due',
    { standing: 'paused', nextDueAt: now },
    unlimited,
    { reserves: false, crowded: false },
  ],
]

for (const [what, changed, allowed, { reserves, crowded }] of outlooks) {
  const outlook = { ...idle, ...changed }
  test(`with ${what} a fresh event ${reserves ? 'is' : 'is not'} born in hand`, () => {
    assert.equal(mayReserve(outlook, allowed, now), reserves)
  })
  test(`with ${what} an endpoint is ${crowded ? '' : 'not '}crowded`, () => {
    assert.equal(isCrowded(outlook, allowed, now), crowded)
  })
}

const nexts: readonly (readonly [Standing, Allowance, boolean])[] = [
  ['serving', unlimited, true],
  ['serving', { kind: 'open_to', limit: 1 }, true],
  ['serving', probing, false],
  ['serving', closedUntil(now + 60_000), false],
  ['paused', unlimited, false],
  ['leaving', unlimited, false],
]

for (const [standing, allowed, expected] of nexts) {
  test(`${standing} and with ${JSON.stringify(allowed)} it ${expected ? 'wants' : 'does not want'} the next of a lane`, () => {
    assert.equal(wantsNext(standing, allowed, false), expected)
  })
}

test('while a suspect runs alone, the next of a lane waits in the store', () => {
  assert.equal(wantsNext('serving', unlimited, true), false)
})
