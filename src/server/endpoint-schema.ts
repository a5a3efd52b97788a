import { z } from 'zod'
import { type Endpoint, type EndpointKind, orderings } from '../core/endpoint.ts'
import { kindFacts } from '../core/endpoint-kinds.ts'
import { defaultTenant } from '../core/event.ts'
import type { Classification } from '../core/failure-classifier.ts'
import { eventTypeLengthMax, typePatternProblem } from '../core/routing.ts'
import { parseSecret } from '../core/signature.ts'
import { breakerSchema } from './breaker-schema.ts'
import { jsonSchemaOf } from './json-schema.ts'
import type { FieldError } from './problem.ts'
import { type Presets, retrySchema } from './retry-schema.ts'
import {
  checkedText,
  choice,
  closedObject,
  description,
  duration,
  headers,
  numberBetween,
  says,
  standardSecretPattern,
  tenant,
  wholeNumber,
} from './schemas.ts'
import { newSecret } from './secrets.ts'
import { httpFields, newTarget, relayFields, targetChangeFields, withTarget, wrongFields } from './targets.ts'

const typesMax = 100
const secondMs = 1_000
const hourMs = 3_600 * secondMs

/** What can be said about any endpoint at any time. */
function ruleFields(presets: Presets) {
  const listError = says(`must be a list of 1 to ${typesMax} types or patterns`)
  return {
    description: description.optional(),
    types: z
      .array(checkedText(typePatternProblem).meta({ maxLength: eventTypeLengthMax, examples: ['order.*'] }), {
        error: listError,
      })
      .min(1, { error: listError })
      .max(typesMax, { error: listError })
      .optional(),
    ordering: choice(orderings).optional(),
    concurrency: wholeNumber(1, 1_000).optional(),
    rateLimit: closedObject({ perSecond: numberBetween(0.01, 100_000) })
      .nullable()
      .optional(),
    timeout: duration(secondMs, 300 * secondMs).optional(),
    retry: retrySchema(presets).optional(),
    breaker: breakerSchema.optional(),
    classify: classify.optional(),
    headers,
  }
}

const classifiedStatus = /^(?:[45]xx|[1-5]\d\d)$/
const classified = choice(['permanent', 'retryable'])
const classify = z
  .unknown()
  .transform((input, context): Classification => {
    if (typeof input !== 'object' || input === null || Array.isArray(input)) {
      context.addIssue('must be an object like {"409": "retryable"}')
      return z.NEVER
    }
    const entries = Object.entries(input).map(([status, meaning]) => {
      if (!classifiedStatus.test(status)) {
        context.addIssue({ code: 'custom', path: [status], message: 'must be a status from 100 to 599, 4xx or 5xx' })
      }
      const parsed = classified.safeParse(meaning)
      if (!parsed.success) {
        context.addIssue({ code: 'custom', path: [status], message: parsed.error.issues[0]?.message ?? '' })
      }
      return [status, parsed.data] as const
    })
    return Object.fromEntries(entries) as Classification
  })
  .meta(jsonSchemaOf(z.record(z.string().regex(classifiedStatus), classified)))

/** A field of another kind of endpoint: it is known, and wrong here. */
function refused(message: string) {
  return z.never({ error: () => message }).optional()
}

export function endpointSchemas(presets: Presets) {
  const rules = ruleFields(presets)
  return {
    creation: creationSchema(rules),
    change: closedObject({ ...rules, ...targetChangeFields }, 'a field that can be changed'),
  }
}

/** One of two forms, chosen by hand, so that the errors are those of the form that was meant. */
function creationSchema(rules: ReturnType<typeof ruleFields>) {
  const shared = { ...rules, tenant: tenant.optional(), secret: secret.optional() }
  const kind = z.literal('http', { error: says('must be one of http, relay') }).optional()
  const http = { ...shared, kind, ...httpFields }
  const relay = { ...shared, kind: z.literal('relay'), ...relayFields }
  const forms = {
    http: closedObject({
      ...http,
      relay: refused(wrongFields.http.relay),
      route: refused(wrongFields.http.route),
    }),
    relay: closedObject({
      ...relay,
      url: refused(wrongFields.relay.url),
      disableAfter: refused(wrongFields.relay.disableAfter),
      forwardHeaders: refused(wrongFields.relay.forwardHeaders),
    }),
  }
  return z
    .unknown()
    .transform((input, context) => {
      const isRelay = typeof input === 'object' && input !== null && 'kind' in input && input.kind === 'relay'
      const parsed = isRelay ? forms.relay.safeParse(input) : forms.http.safeParse(input)
      if (parsed.success) return parsed.data
      context.issues.push(...parsed.error.issues.map((issue) => ({ ...issue, input }) as z.core.$ZodRawIssue))
      return z.NEVER
    })
    .meta({
      ...jsonSchemaOf(
        z.union([
          closedObject(http).meta({ id: 'NewHttpEndpoint' }),
          closedObject(relay).meta({ id: 'NewRelayEndpoint' }),
        ]),
      ),
      discriminator: {
        propertyName: 'kind',
        mapping: { http: '#/components/schemas/NewHttpEndpoint', relay: '#/components/schemas/NewRelayEndpoint' },
      },
    })
}

const secret = checkedText(secretProblem).meta({
  pattern: standardSecretPattern,
  examples: [`whsec_${'A'.repeat(32)}`],
})

export const rotationSchema = closedObject({
  keepOldFor: duration(0, 7 * 24 * hourMs).default(24 * hourMs),
  secret: secret.optional(),
})

type EndpointSchemas = ReturnType<typeof endpointSchemas>
export type Creation = z.output<EndpointSchemas['creation']>
export type EndpointChange = z.output<EndpointSchemas['change']>

export function newEndpoint(creation: Creation, id: string, presets: Presets, now: number): Endpoint {
  const target = newTarget(creation)
  const secret = { secret: creation.secret ?? newSecret(), expiresAt: null }
  const blank: Endpoint = {
    ...target,
    ...rulesByDefault(target.kind, presets),
    id,
    tenant: creation.tenant ?? defaultTenant,
    secrets: kindFacts[target.kind].signs ? [secret] : [],
    status: 'active',
    statusReason: null,
    createdAt: now,
    updatedAt: now,
  }
  return changedEndpoint(blank, creation, now)
}

/** The rules of an endpoint of this kind that says nothing about them. */
export function rulesByDefault(kind: EndpointKind, presets: Presets) {
  const { ordering, concurrency, timeoutMs, preset, breaker, classify } = kindFacts[kind].defaults
  return {
    description: '',
    types: ['*'],
    ordering,
    concurrency,
    rateLimit: null,
    timeoutMs,
    retry: presets[preset],
    breaker,
    classify,
    headers: {},
  }
}

/** What is wrong with a change for an endpoint of this kind, by field. */
export function changeProblems({ kind }: Endpoint, change: EndpointChange): readonly FieldError[] {
  const wrong = Object.entries(wrongFields[kind]).filter(([name]) => change[name as keyof EndpointChange] !== undefined)
  return wrong.map(([path, message]) => ({ path, message }))
}

/** Top-level fields replace what was there; what is not named stays. */
export function changedEndpoint(endpoint: Endpoint, change: EndpointChange, now: number): Endpoint {
  return {
    ...withTarget(endpoint, change),
    description: change.description ?? endpoint.description,
    types: change.types ?? endpoint.types,
    ordering: change.ordering ?? endpoint.ordering,
    concurrency: change.concurrency ?? endpoint.concurrency,
    rateLimit: change.rateLimit === undefined ? endpoint.rateLimit : change.rateLimit,
    timeoutMs: change.timeout ?? endpoint.timeoutMs,
    retry: change.retry ?? endpoint.retry,
    breaker: change.breaker === undefined ? endpoint.breaker : change.breaker,
    classify: change.classify ?? endpoint.classify,
    headers: change.headers ?? endpoint.headers,
    updatedAt: now,
  }
}

function secretProblem(text: string): string | null {
  return parseSecret(text) === null ? 'must be whsec_ and 24 to 64 bytes in base64' : null
}
