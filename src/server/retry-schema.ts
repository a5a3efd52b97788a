import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { durationMsMax, formatDuration, parseDuration } from '../core/duration.ts'
import type { ExponentialPolicy, Jitter, PresetName, RetryPolicy, SchedulePolicy } from '../core/retry-policy.ts'
import { presetNames } from '../core/retry-policy.ts'
import { jsonSchemaOf } from './json-schema.ts'
import { choice, closedObject, duration, numberBetween, says, wholeNumber } from './schemas.ts'

export type Presets = Readonly<Record<PresetName, RetryPolicy>>

const dayMs = 86_400_000
const delaysMax = 100

const delay = duration(0, 30 * dayMs)
const jitterError = says('must be a ratio from 0 to 1, or a duration up to 1d like "200ms"')
const jitter = z
  .union([z.string(), z.number()], { error: jitterError })
  .transform((input): Jitter | null => {
    if (typeof input === 'number' && input >= 0 && input <= 1) return { kind: 'ratio', ratio: input }
    const maxMs = parseDuration(input)
    return maxMs === null || maxMs > dayMs ? null : { kind: 'added', maxMs }
  })
  .refine((value) => value !== null, { error: jitterError })

const limits = {
  jitter: jitter.optional(),
  maxAttempts: wholeNumber(1, 100_000).nullable().optional(),
  maxAge: duration(1_000, durationMsMax).nullable().optional(),
}
const exponential = {
  baseDelay: delay.optional(),
  multiplier: numberBetween(1, 100).optional(),
  maxDelay: delay.optional(),
  ...limits,
}
const delaysError = says(`must be a list of 1 to ${delaysMax} durations`)
const schedule = {
  delays: z
    .array(delay, { error: delaysError })
    .min(1, { error: delaysError })
    .max(delaysMax, { error: delaysError })
    .optional(),
  ...limits,
}
const exponentialSchema = closedObject({ ...exponential, baseDelay: delay, strategy: z.literal('exponential') })
const scheduleSchema = closedObject({ ...schedule, delays: schedule.delays.unwrap(), strategy: z.literal('schedule') })
const strategy = choice(['exponential', 'schedule'])
const preset = choice(presetNames)

/** A preset's name, a preset with changes, or a whole policy. */
export function retrySchema(presets: Presets) {
  return z
    .unknown()
    .transform((input, context): RetryPolicy => {
      const parsed = schemaFor(input, presets).safeParse(input)
      if (parsed.success) return named(parsed.data, presets)
      context.issues.push(...parsed.error.issues.map((issue) => ({ ...issue, input }) as z.core.$ZodRawIssue))
      return z.NEVER
    })
    .meta(jsonSchemaOf(anyForm))
}

/** All that `schemaFor` chooses from. */
const anyForm = z.union([
  preset,
  closedObject({ ...exponential, preset, strategy: z.literal('exponential').optional() }),
  closedObject({ ...schedule, preset, strategy: z.literal('schedule').optional() }),
  exponentialSchema,
  scheduleSchema,
])

/** Chosen by hand, so that the errors are those of the form that was meant. */
function schemaFor(input: unknown, presets: Presets): z.ZodType<RetryPolicy> {
  if (typeof input === 'string') return preset.transform((name) => presets[name])
  const { preset: name, strategy: kind } = (input ?? {}) as Record<string, unknown>
  if (name !== undefined) {
    const base = presetNames.find((candidate) => candidate === name)
    return base === undefined ? z.looseObject({ preset }).transform(() => presets.webhook) : changed(presets[base])
  }
  if (kind === 'schedule') return scheduleSchema.transform((fields) => scheduleOf(fields, newSchedule(fields.delays)))
  if (kind === 'exponential') return exponentialSchema.transform((fields) => exponentialOf(fields, newExponential))
  if (kind !== undefined) return z.looseObject({ strategy }).transform(() => presets.webhook)
  const error = `must be a preset (${presetNames.join(', ')}) or an object with a preset or a strategy`
  return z.never({ error: () => error }) as z.ZodType<RetryPolicy>
}

function changed(base: RetryPolicy): z.ZodType<RetryPolicy> {
  const own = { preset, strategy: choice([base.strategy]).optional() }
  switch (base.strategy) {
    case 'exponential':
      return closedObject({ ...exponential, ...own }).transform((fields) => exponentialOf(fields, base))
    case 'schedule':
      return closedObject({ ...schedule, ...own }).transform((fields) => scheduleOf(fields, base))
  }
}

type LimitFields = {
  jitter?: Jitter | null | undefined
  maxAttempts?: number | null | undefined
  maxAge?: number | null | undefined
}

const maxAgeMsDefault = 7 * dayMs
const newExponential: ExponentialPolicy = {
  preset: null,
  strategy: 'exponential',
  baseDelayMs: 1_000,
  multiplier: 2,
  maxDelayMs: 3_600_000,
  jitter: { kind: 'ratio', ratio: 0 },
  maxAttempts: 5,
  maxAgeMs: maxAgeMsDefault,
}

function newSchedule(delaysMs: readonly number[]): SchedulePolicy {
  const { jitter, maxAgeMs } = newExponential
  return { preset: null, strategy: 'schedule', delaysMs, jitter, maxAttempts: delaysMs.length + 1, maxAgeMs }
}

function exponentialOf(
  fields: LimitFields & {
    baseDelay?: number | undefined
    multiplier?: number | undefined
    maxDelay?: number | undefined
  },
  base: ExponentialPolicy,
): RetryPolicy {
  return {
    ...base,
    baseDelayMs: fields.baseDelay ?? base.baseDelayMs,
    multiplier: fields.multiplier ?? base.multiplier,
    maxDelayMs: fields.maxDelay ?? base.maxDelayMs,
    ...limitsOf(fields, base),
  }
}

function scheduleOf(
  fields: LimitFields & { delays?: readonly number[] | undefined },
  base: SchedulePolicy,
): RetryPolicy {
  return { ...base, delaysMs: fields.delays ?? base.delaysMs, ...limitsOf(fields, base) }
}

/** null is a value here: no limit. */
function limitsOf(fields: LimitFields, base: RetryPolicy): Pick<RetryPolicy, 'jitter' | 'maxAttempts' | 'maxAgeMs'> {
  return {
    jitter: fields.jitter ?? base.jitter,
    maxAttempts: fields.maxAttempts === undefined ? base.maxAttempts : fields.maxAttempts,
    maxAgeMs: fields.maxAge === undefined ? base.maxAgeMs : fields.maxAge,
  }
}

/** A preset with changes is a preset no more, unless the changes are none. */
function named(policy: RetryPolicy, presets: Presets): RetryPolicy {
  const isPreset = policy.preset !== null && isDeepStrictEqual(policy, presets[policy.preset])
  return isPreset ? policy : { ...policy, preset: null }
}

/** As the API shows it and takes it back. */
export function retryShown(policy: RetryPolicy): Record<string, unknown> {
  const delays =
    policy.strategy === 'exponential'
      ? {
          baseDelay: formatDuration(policy.baseDelayMs),
          multiplier: policy.multiplier,
          maxDelay: formatDuration(policy.maxDelayMs),
        }
      : { delays: policy.delaysMs.map(formatDuration) }
  return {
    ...(policy.preset !== null && { preset: policy.preset }),
    strategy: policy.strategy,
    ...delays,
    jitter: policy.jitter.kind === 'ratio' ? policy.jitter.ratio : formatDuration(policy.jitter.maxMs),
    maxAttempts: policy.maxAttempts,
    maxAge: policy.maxAgeMs === null ? null : formatDuration(policy.maxAgeMs),
  }
}
