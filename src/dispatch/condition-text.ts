import { z } from 'zod'
import type { Condition } from '../core/condition.ts'

const instant = z.number()
const breaker = z.discriminatedUnion('state', [
  z.object({ state: z.literal('closed'), failures: z.number(), ramp: z.number().nullable() }),
  z.object({ state: z.literal('open'), failures: z.number(), openedAt: instant, until: instant }),
  z.object({
    state: z.literal('half_open'),
    failures: z.number(),
    openedAt: instant,
    probeStartedAt: instant,
    until: instant,
  }),
])
const shape = z.object({
  breaker,
  heldUntil: instant.nullable(),
  failingSince: instant.nullable(),
  lastError: z.string().nullable(),
  lastErrorAt: instant.nullable(),
})

/** A condition as processes tell it to each other: the same condition is always the same text. */
export function textOf({ breaker, heldUntil, failingSince, lastError, lastErrorAt }: Condition): string {
  return JSON.stringify(shape.parse({ breaker, heldUntil, failingSince, lastError, lastErrorAt }))
}

/** null: nobody has told it, or in words of another version. */
export function conditionIn(text: string | null, endpointId: string): Condition | null {
  if (text === null) return null
  try {
    return { endpointId, ...shape.parse(JSON.parse(text)) }
  } catch {
    return null
  }
}
