import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  delayAfter,
  longestDelay,
  type PresetName,
  presetNames,
  presets,
  processingPolicy,
  type RetryPolicy,
} from '../../src/core/retry-policy.ts'

const day = 86_400_000
/** With this draw a ± jitter is nothing. */
const middle = 0.5
const almostOne = 1 - Number.EPSILON

function delaysS(policy: RetryPolicy, count: number, random = middle): number[] {
  return Array.from({ length: count }, (_, index) => delayAfter(policy, index + 1, random) / 1_000)
}

const [minute, hour] = [60, 3_600]
const pinned: Record<PresetName, { delaysS: number[]; maxAttempts: number | null; maxAgeMs: number | null }> = {
  // S0: min(5s * 2^attempts, 300s), attempts incremented before.
  processing: { delaysS: [10, 20, 40, 80, 160, 300, 300], maxAttempts: 5, maxAgeMs: 7 * day },
  // S1: 1s, 2s, 4s … 2048s, 3600s (cap); dead_letter after 7 days.
  relay: {
    delaysS: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600],
    maxAttempts: null,
    maxAgeMs: 7 * day,
  },
  // S2: immediate, 1 s, 2 s, give up after 3 retries, which are 4 tries.
  consumer: { delaysS: [0, 1, 2, 2], maxAttempts: 4, maxAgeMs: 7 * day },
  // S3: about 1, 2, 4, 8, 16 s; cap 1 h; 5 attempts.
  webhook: {
    delaysS: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600],
    maxAttempts: 5,
    maxAgeMs: 7 * day,
  },
  // S4: 1000 ms doubled, cap 30 s, up to 200 ms on top; the middle draw adds 100 ms below the cap.
  kafka: { delaysS: [1.1, 2.1, 4.1, 8.1, 16.1, 30, 30], maxAttempts: 3, maxAgeMs: 7 * day },
  publish: { delaysS: [1, 2, 4, 8, 16, 30, 30], maxAttempts: null, maxAgeMs: null },
  patient: {
    delaysS: [5, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour, 24 * hour],
    maxAttempts: 10,
    maxAgeMs: 7 * day,
  },
}

for (const name of presetNames) {
  test(`the preset ${name} waits as its document says, delay by delay`, () => {
    const expected = pinned[name]
    assert.deepEqual(delaysS(presets[name], expected.delaysS.length), expected.delaysS)
    assert.equal(presets[name].maxAttempts, expected.maxAttempts)
    assert.equal(presets[name].maxAgeMs, expected.maxAgeMs)
    assert.equal(presets[name].preset, name)
  })
}

test('the presets are spread as their documents say: ±10 %, 0…200 ms, ±20 %, the others not at all', () => {
  const bounds: [PresetName, number, number, number][] = [
    ['processing', 1, 10_000, 10_000],
    ['relay', 1, 1_000, 1_000],
    ['consumer', 2, 1_000, 1_000],
    ['webhook', 1, 900, 1_100],
    ['webhook', 2, 1_800, 2_200],
    ['kafka', 1, 1_000, 1_200],
    ['publish', 1, 1_000, 1_000],
    ['patient', 1, 4_000, 6_000],
    ['patient', 9, 69_120_000, 103_680_000],
  ]
  for (const [name, tries, lowest, highest] of bounds) {
    assert.equal(delayAfter(presets[name], tries, 0), lowest, `${name} ${tries} lowest`)
    assert.equal(delayAfter(presets[name], tries, almostOne), highest, `${name} ${tries} highest`)
  }
})

test('the cap holds after jitter', () => {
  assert.equal(delayAfter(presets.webhook, 13, almostOne), 3_600_000)
  assert.equal(delayAfter(presets.webhook, 13, 0), 3_240_000)
  assert.equal(delayAfter(presets.kafka, 6, almostOne), 30_000)
  const nearCap: RetryPolicy = { ...presets.webhook, maxDelayMs: 1_050 } as RetryPolicy
  assert.equal(delayAfter(nearCap, 1, almostOne), 1_050)
})

test('RETRY_BASE_DELAY, RETRY_MAX_DELAY and MAX_ATTEMPTS mean what S0 wrote', () => {
  const policy = processingPolicy({ retryBaseDelayMs: 100, retryMaxDelayMs: 1_000, maxAttempts: 7 })
  for (let attempts = 1; attempts <= 20; attempts++) {
    assert.equal(delayAfter(policy, attempts, middle), Math.min(100 * 2 ** attempts, 1_000))
  }
  assert.equal(policy.maxAttempts, 7)
})

test('a constant delay is an exponent of one', () => {
  const constant: RetryPolicy = { ...presets.publish, preset: null, multiplier: 1 } as RetryPolicy
  assert.deepEqual(delaysS(constant, 4), [1, 1, 1, 1])
})

test('a probe that failed before any other try waits like the first', () => {
  for (const name of presetNames) {
    assert.equal(delayAfter(presets[name], 0, middle), delayAfter(presets[name], 1, middle))
  }
})

test('the 10,000th delay neither overflows nor leaves the cap', () => {
  for (const name of presetNames) {
    const delay = delayAfter(presets[name], 10_000, middle)
    assert.equal(delay, pinned[name].delaysS.at(-1)! * 1_000, name)
  }
  const zero: RetryPolicy = { ...presets.relay, baseDelayMs: 0, multiplier: 10 } as RetryPolicy
  assert.equal(delayAfter(zero, 10_000, middle), 0)
  const noDelays: RetryPolicy = { ...presets.consumer, delaysMs: [] } as RetryPolicy
  assert.equal(delayAfter(noDelays, 10_000, middle), 0)
  assert.equal(longestDelay(noDelays), 0)
})

const jitter = fc.oneof(
  fc.record({ kind: fc.constant('ratio' as const), ratio: fc.double({ min: 0, max: 1, noNaN: true }) }),
  fc.record({ kind: fc.constant('added' as const), maxMs: fc.nat({ max: day }) }),
)
const limits = { preset: fc.constant(null), maxAttempts: fc.constant(null), maxAgeMs: fc.constant(null), jitter }
const anyPolicy: fc.Arbitrary<RetryPolicy> = fc.oneof(
  fc.record({
    ...limits,
    strategy: fc.constant('exponential' as const),
    baseDelayMs: fc.nat({ max: day }),
    multiplier: fc.double({ min: 1, max: 100, noNaN: true }),
    maxDelayMs: fc.nat({ max: 30 * day }),
  }),
  fc.record({
    ...limits,
    strategy: fc.constant('schedule' as const),
    delaysMs: fc.array(fc.nat({ max: 30 * day }), { maxLength: 20 }),
  }),
)
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

test('every delay of every policy is a whole number from 0 to the longest delay', () => {
  fc.assert(
    fc.property(anyPolicy, fc.nat({ max: 20_000 }), random, (policy, tries, draw) => {
      const delay = delayAfter(policy, tries, draw)
      assert.ok(Number.isSafeInteger(delay) && delay >= 0 && delay <= longestDelay(policy), String(delay))
    }),
    { numRuns: 2_000 },
  )
})

test('jitter stays within its bounds around the delay without jitter', () => {
  fc.assert(
    fc.property(anyPolicy, fc.integer({ min: 1, max: 50 }), random, (policy, tries, draw) => {
      const plain = delayAfter({ ...policy, jitter: { kind: 'ratio', ratio: 0 } }, tries, draw)
      const [below, above] =
        policy.jitter.kind === 'ratio'
          ? [policy.jitter.ratio * plain, policy.jitter.ratio * plain]
          : [0, policy.jitter.maxMs]
      const delay = delayAfter(policy, tries, draw)
      // Both are rounded: half a millisecond each, and that of the plain delay once more by the ratio.
      const rounding = 1.5
      assert.ok(delay >= plain - below - rounding && delay <= plain + above + rounding, `${plain} became ${delay}`)
    }),
    { numRuns: 2_000 },
  )
})

test('without jitter an exponential delay never shrinks from one try to the next', () => {
  fc.assert(
    fc.property(anyPolicy, fc.integer({ min: 1, max: 2_000 }), (policy, tries) => {
      fc.pre(policy.strategy === 'exponential')
      const steady: RetryPolicy = { ...policy, jitter: { kind: 'ratio', ratio: 0 } }
      assert.ok(delayAfter(steady, tries + 1, middle) >= delayAfter(steady, tries, middle))
    }),
  )
})
