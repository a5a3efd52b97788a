import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  allowance,
  type Breaker,
  type BreakerPolicy,
  closedBreaker,
  defaultBreaker,
  lostBreaker,
  probeAbandoned,
  probeStarted,
  rampEnd,
  recorded,
  reset,
  revived,
  type TryResult,
} from '../../src/core/circuit-breaker.ts'
import type { Outcome } from '../../src/core/outcome.ts'

const policy: BreakerPolicy = { threshold: 3, cooldownMs: 1_000, whenOpen: 'park' }
const now = 1_000_000
const open: Breaker = { state: 'open', failures: 3, openedAt: now - 100, until: now + 900 }
const halfOpen: Breaker = {
  state: 'half_open',
  failures: 3,
  openedAt: now - 1_100,
  probeStartedAt: now - 100,
  until: now + 5_000,
}
const nearlyOpen: Breaker = { state: 'closed', failures: 2, ramp: null }
const opened: Breaker = { state: 'open', failures: 3, openedAt: now, until: now + 1_000 }
/** A failed probe is one more failure in a row. */
const openedAgain: Breaker = { ...opened, failures: 4 }
const justClosed: Breaker = { state: 'closed', failures: 0, ramp: 1 }

const permanent = (reason: Extract<Outcome, { kind: 'permanent' }>['reason']): Outcome => ({
  kind: 'permanent',
  reason,
  error: 'x',
})
const results = {
  ok: { outcome: { kind: 'delivered' }, statusCode: 204 },
  okWithoutStatus: { outcome: { kind: 'delivered' }, statusCode: null },
  notFound: { outcome: permanent('permanent_status'), statusCode: 404 },
  redirect: { outcome: permanent('permanent_status'), statusCode: 302 },
  tooMany: { outcome: { kind: 'retryable', error: 'HTTP 429', retryAfterMs: 1 }, statusCode: 429 },
  down: { outcome: { kind: 'unavailable', error: 'HTTP 503', retryAfterMs: null }, statusCode: 503 },
  refused: { outcome: { kind: 'unavailable', error: 'ECONNREFUSED', retryAfterMs: null }, statusCode: null },
  neverFinal: { outcome: { kind: 'unavailable', error: 'HTTP 101', retryAfterMs: null }, statusCode: 101 },
  overridden: { outcome: permanent('permanent_status'), statusCode: 500 },
  blocked: { outcome: permanent('blocked_address'), statusCode: null },
  tooLarge: { outcome: permanent('too_large'), statusCode: null },
  ours: { outcome: { kind: 'ours', error: 'EMFILE' }, statusCode: null },
} as const satisfies Record<string, Pick<TryResult, 'outcome' | 'statusCode'>>
type Name = keyof typeof results

const up: Name[] = ['ok', 'okWithoutStatus', 'notFound', 'redirect', 'tooMany']
const down: Name[] = ['down', 'refused', 'neverFinal']
const unknown: Name[] = ['overridden', 'blocked', 'tooLarge', 'ours']

function after(breaker: Breaker, name: Name, how: Partial<TryResult> = {}): Breaker {
  return recorded(breaker, { ...results[name], startedAt: now - 50, probe: false, ...how }, policy, now)
}

test('the default is S2: five failures, five minutes, and deliveries wait', () => {
  assert.deepEqual(defaultBreaker, { threshold: 5, cooldownMs: 300_000, whenOpen: 'park' })
  let breaker: Breaker = closedBreaker
  for (let failure = 1; failure <= 4; failure++) {
    breaker = recorded(breaker, { ...results.down, startedAt: 0, probe: false }, defaultBreaker, now)
    assert.deepEqual(breaker, { state: 'closed', failures: failure, ramp: null })
  }
  breaker = recorded(breaker, { ...results.refused, startedAt: 0, probe: false }, defaultBreaker, now)
  assert.deepEqual(breaker, { state: 'open', failures: 5, openedAt: now, until: now + 300_000 })
})

test('closed: only unavailable counts, any answer below 500 starts again, the rest changes nothing', () => {
  for (const name of up) assert.deepEqual(after(nearlyOpen, name), closedBreaker, name)
  for (const name of down) assert.deepEqual(after(nearlyOpen, name), opened, name)
  for (const name of unknown) assert.deepEqual(after(nearlyOpen, name), nearlyOpen, name)
})

test('half-open: an answer closes it, unavailable opens it again, anything else asks for another probe', () => {
  for (const name of up) assert.deepEqual(after(halfOpen, name, { probe: true }), justClosed, name)
  for (const name of down) assert.deepEqual(after(halfOpen, name, { probe: true }), openedAgain, name)
  for (const name of unknown) {
    const next = after(halfOpen, name, { probe: true })
    assert.deepEqual(next, { state: 'open', failures: 3, openedAt: now - 1_100, until: now }, name)
    assert.deepEqual(allowance(next, now), { kind: 'probe' })
  }
})

test('results of tries that began before it opened change nothing', () => {
  for (const breaker of [open, halfOpen]) {
    for (const name of [...up, ...down, ...unknown]) {
      assert.equal(after(breaker, name, { startedAt: breaker.openedAt - 1 }), breaker, name)
      assert.equal(after(breaker, name, { startedAt: breaker.openedAt }), breaker, name)
    }
  }
})

test('a try that passed the open breaker closes it by success and cannot lengthen the wait', () => {
  for (const breaker of [open, halfOpen]) {
    for (const name of up) assert.deepEqual(after(breaker, name), justClosed, name)
    for (const name of [...down, ...unknown]) assert.equal(after(breaker, name), breaker, name)
  }
})

test('a probe counts whenever it began', () => {
  assert.deepEqual(after(halfOpen, 'ok', { probe: true, startedAt: 0 }), justClosed)
  assert.deepEqual(after(open, 'down', { probe: true, startedAt: 0 }), openedAgain)
})

test('allows nothing while open, one probe after the cool-down, and nothing beside the probe', () => {
  assert.deepEqual(allowance(closedBreaker, now), { kind: 'open_to', limit: null })
  assert.deepEqual(allowance({ state: 'closed', failures: 1, ramp: 7 }, now), { kind: 'open_to', limit: 7 })
  assert.deepEqual(allowance(open, now), { kind: 'wait', until: now + 900 })
  assert.deepEqual(allowance(open, now + 899), { kind: 'wait', until: now + 900 })
  assert.deepEqual(allowance(open, now + 900), { kind: 'probe' })
  assert.deepEqual(allowance(halfOpen, now + 4_999), { kind: 'wait', until: now + 5_000 })
})

test('nobody waits for a probe that has not ended in its time: another one begins', () => {
  assert.deepEqual(allowance(halfOpen, now + 5_000), { kind: 'probe' })
  assert.deepEqual(probeStarted(halfOpen, 1_000, now + 5_000), {
    state: 'half_open',
    failures: 3,
    openedAt: now - 1_100,
    probeStartedAt: now + 5_000,
    until: now + 5_000 + 1_000 + 30_000,
  })
})

test('a probe can begin from open only, and be given up only while it is under way', () => {
  const probing: Breaker = {
    state: 'half_open',
    failures: 3,
    openedAt: now - 100,
    probeStartedAt: now,
    until: now + 1_000 + 30_000,
  }
  assert.deepEqual(probeStarted(open, 1_000, now), probing)
  assert.equal(probeStarted(closedBreaker, 1_000, now), closedBreaker)
  assert.equal(probeStarted(halfOpen, 1_000, now), halfOpen)
  assert.deepEqual(probeAbandoned(probing, now), { state: 'open', failures: 3, openedAt: now - 100, until: now })
  assert.equal(probeAbandoned(closedBreaker, now), closedBreaker)
  assert.equal(probeAbandoned(open, now), open)
})

test('after it closed the load grows by one per success up to no limit, and a failure does not widen it', () => {
  let breaker: Breaker = justClosed
  for (let ramp = 2; ramp < rampEnd; ramp++) {
    breaker = after(after(breaker, 'down'), 'ok')
    assert.deepEqual(breaker, { state: 'closed', failures: 0, ramp })
  }
  assert.deepEqual(after(breaker, 'down'), { state: 'closed', failures: 1, ramp: rampEnd - 1 })
  assert.deepEqual(after(breaker, 'ok'), closedBreaker)
})

test('a restart gives up the probe under way and pulls back what a wrong clock wrote', () => {
  assert.deepEqual(revived(halfOpen, policy, now), { state: 'open', failures: 3, openedAt: now - 1_100, until: now })
  assert.deepEqual(revived(open, policy, now), open)
  assert.equal(revived(nearlyOpen, policy, now), nearlyOpen)
  const fromTheFuture: Breaker = { state: 'open', failures: 3, openedAt: now + 1e9, until: now + 1e9 + 1_000 }
  assert.deepEqual(revived(fromTheFuture, policy, now), {
    state: 'open',
    failures: 3,
    openedAt: now,
    until: now + 1_000,
  })
  const overdue: Breaker = { state: 'open', failures: 3, openedAt: 0, until: 1_000 }
  assert.deepEqual(allowance(revived(overdue, policy, now), now), { kind: 'probe' })
  const probing: Breaker = {
    state: 'half_open',
    failures: 3,
    openedAt: now + 1e9,
    probeStartedAt: now + 1e9,
    until: now + 2e9,
  }
  assert.deepEqual(allowance(revived(probing, policy, now), now), { kind: 'probe' })
})

// ── A dispatcher in small, driven at random ───────────────────────────────────────────────────────────────────────

type Step =
  | { do: 'start' }
  | { do: 'finish'; which: number; name: Name }
  | { do: 'wait'; ms: number }
  | { do: 'restart' }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('start' as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('finish' as const),
      which: fc.nat({ max: 20 }),
      name: fc.constantFrom(...up, ...down, ...down, ...down, ...unknown),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.nat({ max: 1_200 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
)

type World = { clock: number; breaker: Breaker; inFlight: { startedAt: number; probe: boolean }[]; downInARow: number }

function start(world: World): void {
  const allowed = allowance(world.breaker, world.clock)
  const probe = allowed.kind === 'probe'
  if (allowed.kind === 'wait') return
  if (allowed.kind === 'open_to' && allowed.limit !== null && world.inFlight.length >= allowed.limit) return
  if (probe) world.breaker = probeStarted(world.breaker, 1_000_000, world.clock)
  world.inFlight.push({ startedAt: world.clock, probe })
}

function finish(world: World, which: number, name: Name): void {
  const [tried] = world.inFlight.splice(which % Math.max(1, world.inFlight.length), 1)
  if (tried === undefined) return
  const before = world.breaker
  const wasClosed = before.state === 'closed'
  world.breaker = recorded(before, { ...results[name], ...tried }, policy, world.clock)

  if (wasClosed && down.includes(name)) world.downInARow += 1
  if (wasClosed && up.includes(name)) world.downInARow = 0
  if (wasClosed) assert.equal(world.breaker.state === 'open', world.downInARow >= policy.threshold)
  if (!wasClosed && up.includes(name) && tried.probe) assert.equal(world.breaker.state, 'closed')
  if (!wasClosed && !up.includes(name)) assert.notEqual(world.breaker.state, 'closed')
  if (world.breaker.state !== 'closed') world.downInARow = 0
}

function checkAlways(world: World): void {
  const probes = world.inFlight.filter((tried) => tried.probe).length
  assert.ok(probes <= 1, 'two probes at once')
  assert.equal(world.breaker.state === 'half_open', probes === 1)
  if (world.breaker.state === 'open') assert.ok(world.breaker.until <= world.clock + policy.cooldownMs)
  if (world.breaker.state === 'closed') assert.ok(world.breaker.failures < policy.threshold)
}

test('whatever happens: one probe at most, opens exactly at the threshold, and an endpoint that is back gets its load', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
      const world: World = { clock: now, breaker: closedBreaker, inFlight: [], downInARow: 0 }
      for (const each of steps) {
        if (each.do === 'start') start(world)
        else if (each.do === 'finish') finish(world, each.which, each.name)
        else if (each.do === 'wait') world.clock += each.ms
        else {
          world.breaker = revived(world.breaker, policy, world.clock)
          world.inFlight = []
        }
        checkAlways(world)
      }

      // The endpoint is back: everything under way succeeds, and so does all that follows.
      world.clock += policy.cooldownMs
      for (let round = 0; round < 2 * rampEnd; round++) {
        start(world)
        finish(world, 0, 'ok')
        checkAlways(world)
        world.clock += 1
      }
      while (world.inFlight.length > 0) finish(world, 0, 'ok')
      assert.deepEqual(world.breaker, closedBreaker)
    }),
    { numRuns: 1_000 },
  )
})

test('a reset closes it at the foot of the ramp, and leaves a closed one on its way', () => {
  assert.deepEqual(reset(open), justClosed)
  assert.deepEqual(reset(halfOpen), justClosed)
  assert.deepEqual(reset(nearlyOpen), closedBreaker)
  assert.equal(reset(closedBreaker), closedBreaker)
  assert.deepEqual(reset({ state: 'closed', failures: 1, ramp: 7 }), { state: 'closed', failures: 0, ramp: 7 })
})

test('when what others know of it is lost, it is probed at once', () => {
  assert.equal(lostBreaker(justClosed, now), justClosed)
  for (const breaker of [open, halfOpen]) {
    assert.deepEqual(allowance(lostBreaker(breaker, now), now), { kind: 'probe' })
    assert.deepEqual(allowance(lostBreaker(breaker, now + 9_000), now + 9_000), { kind: 'probe' })
  }
})
