import { z } from 'zod'
import { type BreakerPolicy, defaultBreaker } from '../core/circuit-breaker.ts'
import { jsonSchemaOf } from './json-schema.ts'
import { choice, closedObject, duration, wholeNumber } from './schemas.ts'

const secondMs = 1_000
const dayMs = 86_400 * secondMs

const breakerFields = closedObject({
  threshold: wholeNumber(1, 1_000).default(defaultBreaker.threshold),
  cooldown: duration(secondMs, dayMs).default(defaultBreaker.cooldownMs),
  whenOpen: choice(['park', 'fail']).default(defaultBreaker.whenOpen),
})

/** A breaker as the API takes it; false is none. */
export const breakerSchema = z
  .unknown()
  .transform((input, context): BreakerPolicy | null => {
    if (input === false) return null
    const parsed = breakerFields.safeParse(input)
    if (parsed.success)
      return { threshold: parsed.data.threshold, cooldownMs: parsed.data.cooldown, whenOpen: parsed.data.whenOpen }
    context.issues.push(...parsed.error.issues.map((issue) => ({ ...issue, input }) as z.core.$ZodRawIssue))
    return z.NEVER
  })
  .meta(jsonSchemaOf(z.union([z.literal(false), breakerFields])))
