import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { defaultBreaker } from '../../src/core/circuit-breaker.ts'
import { presets, type RetryPolicy } from '../../src/core/retry-policy.ts'
import {
  type Scenario,
  type SimulatedTry,
  seededRandom,
  simulate,
  simulatedTriesMax,
} from '../../src/core/simulation.ts'

const minuteMs = 60_000
const base: Scenario = {
  policy: presets.webhook,
  breaker: null,
  events: 1_000,
  eventsPerSecond: null,
  outageMs: 20 * minuteMs,
  capacityPerSecond: null,
  concurrency: 1_000,
  tookMs: 50,
  seed: 1,
}
const noJitter = { kind: 'ratio', ratio: 0 } as const

const policies: readonly RetryPolicy[] = [
  ...Object.values(presets),
  { ...presets.webhook, preset: null, maxAttempts: 12 },
  { ...presets.webhook, preset: null, maxAttempts: null, maxAgeMs: minuteMs },
]
const scenarios = fc.record<Scenario>({
  policy: fc.constantFrom(...policies),
  breaker: fc.option(
    fc.record({
      threshold: fc.integer({ min: 1, max: 10 }),
      cooldownMs: fc.integer({ min: 1_000, max: 10 * minuteMs }),
      whenOpen: fc.constantFrom('park' as const, 'fail' as const),
    }),
  ),
  events: fc.integer({ min: 1, max: 200 }),
  eventsPerSecond: fc.option(fc.integer({ min: 1, max: 100 })),
  outageMs: fc.integer({ min: 0, max: 60 * minuteMs }),
  capacityPerSecond: fc.option(fc.integer({ min: 1, max: 100 })),
  concurrency: fc.integer({ min: 1, max: 50 }),
  tookMs: fc.integer({ min: 1, max: 5_000 }),
  seed: fc.nat(),
})

describe('a simulation', () => {
  test('loses no event: each one is delivered or failed', () => {
    fc.assert(
      fc.property(scenarios, (scenario) => {
        const { delivered, failed, waiting, tries, load } = simulate(scenario)
        assert.equal(waiting, 0)
        assert.equal(delivered + failed, scenario.events)
        assert.equal(
          load.reduce((sum, second) => sum + second.tries, 0),
          tries,
        )
        assert.equal(
          load.reduce((sum, second) => sum + second.failedTries, 0),
          tries - delivered,
        )
      }),
      { numRuns: 200 },
    )
  })

  test('while the breaker is not closed nothing is tried but its probes, one per cool-down', () => {
    fc.assert(
      fc.property(scenarios, (scenario) => {
        const tries = triesOf(scenario)
        if (scenario.breaker === null) return assert.ok(tries.every(({ probe }) => !probe))
        for (const { probe, breaker } of tries) assert.equal(probe, breaker !== 'closed')
        const { cooldownMs } = scenario.breaker
        const probes = tries.filter(({ probe }) => probe)
        probes.forEach(({ at, delivered }, index) => {
          const before = probes[index - 1]
          if (before !== undefined && !before.delivered) {
            assert.ok(at - before.at >= cooldownMs, `probes at ${before.at} and ${at}, ${delivered}`)
          }
        })
      }),
      { numRuns: 200 },
    )
  })

  test('nothing is delivered during the outage, and no more is tried at once than allowed', () => {
    fc.assert(
      fc.property(scenarios, (scenario) => {
        const tries = triesOf(scenario)
        for (const { at, delivered } of tries) assert.ok(!delivered || at >= scenario.outageMs)
        const changes = tries
          .flatMap(({ at }) => [[at, 1] as const, [at + scenario.tookMs, -1] as const])
          .sort(([a, more], [b, less]) => a - b || more - less)
        let underway = 0
        for (const [, change] of changes) {
          underway += change
          assert.ok(underway <= scenario.concurrency)
        }
      }),
    )
  })

  test('is the same for the same seed, and another for another', () => {
    assert.deepEqual(simulate(base), simulate(base))
    assert.notDeepEqual(
      simulate({ ...base, policy: patientWebhook }).load,
      simulate({ ...base, policy: patientWebhook, seed: 2 }).load,
    )
  })

  test('gives up after the budget when the outage is longer', () => {
    const { delivered, failed, tries, lastDeliveredAt } = simulate(base)
    assert.deepEqual([delivered, failed, tries, lastDeliveredAt], [0, 1_000, 5_000, null])
  })

  test('parks what a breaker holds back, and delivers all of it', () => {
    const { delivered, failed, triesInOutage, peakAfterOutage } = simulate({
      ...base,
      breaker: defaultBreaker,
      concurrency: 10,
    })
    assert.deepEqual([delivered, failed], [1_000, 0])
    assert.ok(triesInOutage < 20, `${triesInOutage} tries in the outage`)
    assert.ok(peakAfterOutage <= 10 * 20 + 10, `${peakAfterOutage} a second after it`)
  })

  test('without jitter all come back in the same second', () => {
    const herd = simulate({ ...base, policy: { ...patientWebhook, jitter: noJitter } })
    const spread = simulate({ ...base, policy: patientWebhook })
    assert.equal(herd.peakAfterOutage, 1_000)
    assert.ok(spread.peakAfterOutage < 100, `${spread.peakAfterOutage}`)
    assert.deepEqual([herd.delivered, spread.delivered], [1_000, 1_000])
  })

  test('an endpoint at its limit refuses the rest, which is tried again', () => {
    const { delivered, tries, load } = simulate({ ...base, policy: patientWebhook, capacityPerSecond: 5 })
    assert.equal(delivered, 1_000)
    assert.ok(tries > simulate({ ...base, policy: patientWebhook }).tries)
    for (const second of load) assert.ok(second.tries - second.failedTries <= 2 * 5)
  })

  test('ends also when the policy never does', () => {
    const policy: RetryPolicy = { ...presets.consumer, preset: null, delaysMs: [0], maxAttempts: null } as RetryPolicy
    const { delivered, failed, waiting, tries } = simulate({ ...base, policy, tookMs: 1, events: 100 })
    assert.equal(tries, simulatedTriesMax)
    assert.deepEqual([delivered, failed, waiting], [0, 0, 100])
  })
})

const patientWebhook: RetryPolicy = { ...presets.webhook, preset: null, maxAttempts: 20 }

test('seeded chance is even enough', () => {
  const random = seededRandom(7)
  const numbers = Array.from({ length: 10_000 }, random)
  assert.ok(numbers.every((number) => number >= 0 && number < 1))
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length
  assert.ok(Math.abs(mean - 0.5) < 0.02, `${mean}`)
})

function triesOf(scenario: Scenario): readonly SimulatedTry[] {
  const tries: SimulatedTry[] = []
  simulate(scenario, (tried) => tries.push(tried))
  return tries
}
