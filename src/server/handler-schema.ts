import { isDeepStrictEqual } from 'node:util'
import type { z } from 'zod'
import type { Endpoint, HandlerEndpoint } from '../core/endpoint.ts'
import { defaultTenant } from '../core/event.ts'
import { changedEndpoint, endpointSchemas, rulesByDefault } from './endpoint-schema.ts'
import type { Presets } from './retry-schema.ts'
import { checkedText, choice, closedObject, duration, tenant, textUpTo, wholeNumber } from './schemas.ts'

const secondMs = 1_000
const nameLengthMax = 200
const workersMax = 64

/** What code says of itself when it registers as a handler. */
export function handlerSchema(presets: Presets) {
  const { description, types, ordering, concurrency, rateLimit, retry, breaker } = endpointSchemas(presets).change.shape
  const rules = { description, ordering, concurrency, rateLimit, retry, breaker }
  return closedObject(
    {
      types: types.unwrap(),
      name: checkedText(nameProblem).optional(),
      tenant: tenant.optional(),
      timeout: duration(10, 300 * secondMs).optional(),
      engine: choice(['async', 'process']).optional(),
      workers: wholeNumber(1, workersMax).optional(),
      export: textUpTo(nameLengthMax).optional(),
      ...rules,
    },
    'an option of a handler',
  )
}

export type HandlerWish = z.output<ReturnType<typeof handlerSchema>>

/** What a handler is called if it does not say: the types that it wants. */
export function handlerName({ name, types }: Pick<HandlerWish, 'name' | 'types'>): string {
  return name ?? types.join(',')
}

/**
 * The endpoint of a handler. The code is the truth: what it does not say is the default, not what an earlier version of
 * it said. Only what people decide about it stays: its id, and whether it is paused.
 */
export function handlerEndpoint(
  wish: HandlerWish,
  known: HandlerEndpoint | null,
  context: { id: string; presets: Presets; now: number },
): Endpoint {
  const { id, presets, now } = context
  const blank: HandlerEndpoint = {
    id: known?.id ?? id,
    tenant: wish.tenant ?? defaultTenant,
    kind: 'handler',
    handler: handlerName(wish),
    ...rulesByDefault('handler', presets),
    secrets: [],
    status: known?.status ?? 'active',
    statusReason: known?.statusReason ?? null,
    createdAt: known?.createdAt ?? now,
    updatedAt: now,
  }
  return changedEndpoint(blank, wish, now)
}

export function isSameEndpoint(a: Endpoint, b: Endpoint): boolean {
  return isDeepStrictEqual({ ...a, updatedAt: 0 }, { ...b, updatedAt: 0 })
}

function nameProblem(text: string): string | null {
  const isName = text.length >= 1 && text.length <= nameLengthMax && text.trim() === text && !/\p{Cc}/u.test(text)
  return isName ? null : `must have 1 to ${nameLengthMax} characters, and no space around them`
}
