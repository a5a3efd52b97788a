/** Spreads the tries of many deliveries: ± a ratio of the delay, or 0 to `maxMs` on top of it. */
export type Jitter = Readonly<{ kind: 'ratio'; ratio: number }> | Readonly<{ kind: 'added'; maxMs: number }>

export const presetNames = ['processing', 'relay', 'consumer', 'webhook', 'kafka', 'publish', 'patient'] as const
export type PresetName = (typeof presetNames)[number]

type Limits = Readonly<{
  /** The preset this policy is, unchanged; null for any other. */
  preset: PresetName | null
  jitter: Jitter
  /** Tries in all, the first one included; null: no limit. */
  maxAttempts: number | null
  /** How long a delivery may wait, from its arrival or replay; null: for ever. */
  maxAgeMs: number | null
}>

export type ExponentialPolicy = Limits &
  Readonly<{ strategy: 'exponential'; baseDelayMs: number; multiplier: number; maxDelayMs: number }>
/** The last delay repeats; no delays at all means: at once. */
export type SchedulePolicy = Limits & Readonly<{ strategy: 'schedule'; delaysMs: readonly number[] }>
export type RetryPolicy = ExponentialPolicy | SchedulePolicy

const secondMs = 1_000
const minuteMs = 60 * secondMs
const hourMs = 60 * minuteMs
const maxAgeMs = 7 * 24 * hourMs
const noJitter: Jitter = { kind: 'ratio', ratio: 0 }

export const presets: Readonly<Record<PresetName, RetryPolicy>> = {
  processing: processingPolicy({ retryBaseDelayMs: 5 * secondMs, retryMaxDelayMs: 300 * secondMs, maxAttempts: 5 }),
  relay: {
    preset: 'relay',
    strategy: 'exponential',
    baseDelayMs: secondMs,
    multiplier: 2,
    maxDelayMs: hourMs,
    jitter: noJitter,
    maxAttempts: null,
    maxAgeMs,
  },
  consumer: {
    preset: 'consumer',
    strategy: 'schedule',
    delaysMs: [0, secondMs, 2 * secondMs],
    jitter: noJitter,
    maxAttempts: 4,
    maxAgeMs,
  },
  webhook: {
    preset: 'webhook',
    strategy: 'exponential',
    baseDelayMs: secondMs,
    multiplier: 2,
    maxDelayMs: hourMs,
    jitter: { kind: 'ratio', ratio: 0.1 },
    maxAttempts: 5,
    maxAgeMs,
  },
  kafka: {
    preset: 'kafka',
    strategy: 'exponential',
    baseDelayMs: secondMs,
    multiplier: 2,
    maxDelayMs: 30 * secondMs,
    jitter: { kind: 'added', maxMs: 200 },
    maxAttempts: 3,
    maxAgeMs,
  },
  publish: {
    preset: 'publish',
    strategy: 'exponential',
    baseDelayMs: secondMs,
    multiplier: 2,
    maxDelayMs: 30 * secondMs,
    jitter: noJitter,
    maxAttempts: null,
    maxAgeMs: null,
  },
  patient: {
    preset: 'patient',
    strategy: 'schedule',
    delaysMs: [
      5 * secondMs,
      5 * minuteMs,
      30 * minuteMs,
      2 * hourMs,
      5 * hourMs,
      10 * hourMs,
      14 * hourMs,
      20 * hourMs,
      24 * hourMs,
    ],
    jitter: { kind: 'ratio', ratio: 0.2 },
    maxAttempts: 10,
    maxAgeMs,
  },
}

/** The policy behind RETRY_BASE_DELAY, RETRY_MAX_DELAY and MAX_ATTEMPTS. */
export function processingPolicy(settings: {
  retryBaseDelayMs: number
  retryMaxDelayMs: number
  maxAttempts: number
}): RetryPolicy {
  return {
    preset: 'processing',
    strategy: 'exponential',
    // Its formula is base * 2^attempts with the failed try already counted: the first wait is twice the base.
    baseDelayMs: settings.retryBaseDelayMs * 2,
    multiplier: 2,
    maxDelayMs: settings.retryMaxDelayMs,
    jitter: noJitter,
    maxAttempts: settings.maxAttempts,
    maxAgeMs,
  }
}

/**
 * The wait after the `tries`-th failed try of the budget; `random` is in [0, 1). A try that spent no budget (a failed
 * probe) may come with 0 tries and waits like the first.
 */
export function delayAfter(policy: RetryPolicy, tries: number, random: number): number {
  const step = Math.max(1, tries)
  switch (policy.strategy) {
    case 'exponential': {
      // Bounded before it is multiplied: 0 * Infinity would be no number.
      const factor = Math.min(policy.multiplier ** (step - 1), Number.MAX_VALUE)
      const delayMs = Math.min(policy.baseDelayMs * factor, policy.maxDelayMs)
      // The cap holds after jitter, too.
      return Math.min(jittered(delayMs, policy.jitter, random), policy.maxDelayMs)
    }
    case 'schedule':
      return jittered(policy.delaysMs[step - 1] ?? policy.delaysMs.at(-1) ?? 0, policy.jitter, random)
  }
}

/** No delay of this policy is longer: a due time further ahead than this is a clock that jumped. */
export function longestDelay(policy: RetryPolicy): number {
  switch (policy.strategy) {
    case 'exponential':
      return policy.maxDelayMs
    case 'schedule':
      return jittered(Math.max(0, ...policy.delaysMs), policy.jitter, 1)
  }
}

function jittered(delayMs: number, jitter: Jitter, random: number): number {
  switch (jitter.kind) {
    case 'ratio':
      return Math.round(delayMs + (random * 2 - 1) * jitter.ratio * delayMs)
    case 'added':
      return Math.round(delayMs + random * jitter.maxMs)
  }
}
