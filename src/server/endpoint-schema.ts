import { z } from 'zod'
import { defaultBreaker } from '../core/circuit-breaker.ts'
import { formatDuration } from '../core/duration.ts'
import type { Endpoint, HttpTarget } from '../core/endpoint.ts'
import { orderings } from '../core/endpoint.ts'
import { defaultTenant } from '../core/event.ts'
import type { Classification } from '../core/failure-classifier.ts'
import { eventTypeLengthMax, typePatternProblem } from '../core/routing.ts'
import { parseSecret } from '../core/signature.ts'
import { breakerSchema } from './breaker-schema.ts'
import { jsonSchemaOf } from './json-schema.ts'
import type { FieldError } from './problem.ts'
import { type Presets, retrySchema, retryShown } from './retry-schema.ts'
import {
  checkedText,
  choice,
  closedObject,
  description,
  duration,
  headers,
  numberBetween,
  says,
  tenant,
  wholeNumber,
} from './schemas.ts'
import { newSecret } from './secrets.ts'

const urlLengthMax = 2_048
const typesMax = 100
const hidden = '•••'
const secondMs = 1_000
const hourMs = 3_600 * secondMs
const disableAfterDefaultMs = 5 * 24 * hourMs

/** What can be said about an endpoint at any time. */
function changeableFields(presets: Presets) {
  const listError = says(`must be a list of 1 to ${typesMax} types or patterns`)
  return {
    url: checkedText(urlProblem)
      .transform((text) => new URL(text).href)
      .meta({ pattern: '^[hH][tT][tT][pP][sS]?:', maxLength: urlLengthMax, examples: ['https://shop.example/hooks'] }),
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
    disableAfter: disableAfter.optional(),
    forwardHeaders: forwardHeaders.optional(),
    headers,
  }
}

const disableAfterMsMax = 365 * 24 * hourMs
const disableAfter = z
  .union([z.literal(false), duration(hourMs, disableAfterMsMax)], {
    error: says(`must be false, or a duration from 1h to ${formatDuration(disableAfterMsMax)}`),
  })
  .transform((value) => (value === false ? null : value))
  .meta({ description: 'With nothing but failures for this long the endpoint is disabled; false: never.' })

const forwardHeaders = z
  .boolean({ error: says('must be true or false') })
  .meta({ description: 'Whether the headers that a source kept are sent on with its events.' })

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

export function endpointSchemas(presets: Presets) {
  const fields = changeableFields(presets)
  const onlyAtFirst = {
    kind: choice(['http']).optional(),
    tenant: tenant.optional(),
    secret: secret.optional(),
  }
  return {
    creation: closedObject({ ...fields, ...onlyAtFirst }),
    change: closedObject({ ...fields, url: fields.url.optional() }, 'a field that can be changed'),
  }
}

const secret = checkedText(secretProblem).meta({ pattern: '^whsec_', examples: [`whsec_${'A'.repeat(32)}`] })

export const rotationSchema = closedObject({
  keepOldFor: duration(0, 7 * 24 * hourMs).default(24 * hourMs),
  secret: secret.optional(),
})

type EndpointSchemas = ReturnType<typeof endpointSchemas>
export type Creation = z.output<EndpointSchemas['creation']>
export type EndpointChange = z.output<EndpointSchemas['change']>

export function newEndpoint(creation: Creation, id: string, presets: Presets, now: number): Endpoint {
  const blank: Endpoint = {
    id,
    tenant: creation.tenant ?? defaultTenant,
    kind: 'http',
    url: creation.url,
    forwardHeaders: false,
    disableAfterMs: disableAfterDefaultMs,
    description: '',
    types: ['*'],
    ordering: 'none',
    concurrency: 10,
    rateLimit: null,
    timeoutMs: 15 * secondMs,
    retry: presets.webhook,
    breaker: defaultBreaker,
    classify: {},
    headers: {},
    secrets: [{ secret: creation.secret ?? newSecret(), expiresAt: null }],
    status: 'active',
    statusReason: null,
    createdAt: now,
    updatedAt: now,
  }
  return changedEndpoint(blank, creation, now)
}

const httpFields = ['url', 'headers', 'classify', 'disableAfter', 'forwardHeaders'] as const

/** What is wrong with a change for an endpoint of this kind, by field. */
export function changeProblems({ kind }: Endpoint, change: EndpointChange): readonly FieldError[] {
  if (kind === 'http') return []
  const wrong = httpFields.filter((name) => change[name] !== undefined)
  return wrong.map((path) => ({ path, message: 'is not for handlers' }))
}

/** Top-level fields replace what was there; what is not named stays. */
export function changedEndpoint(endpoint: Endpoint, change: EndpointChange, now: number): Endpoint {
  const rules = {
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
  if (endpoint.kind !== 'http') return { ...endpoint, ...rules }
  return { ...endpoint, ...rules, ...changedTarget(endpoint, change) }
}

function changedTarget(target: HttpTarget, change: EndpointChange): HttpTarget {
  return {
    kind: 'http',
    url: change.url ?? target.url,
    forwardHeaders: change.forwardHeaders ?? target.forwardHeaders,
    disableAfterMs: change.disableAfter === undefined ? target.disableAfterMs : change.disableAfter,
  }
}

/** All of an endpoint but its secrets. Headers may carry credentials: who may not change them sees only their names. */
export function endpointShown(endpoint: Endpoint, { showHeaders }: Readonly<{ showHeaders: boolean }>) {
  const { breaker } = endpoint
  return {
    id: endpoint.id,
    tenant: endpoint.tenant,
    kind: endpoint.kind,
    ...targetShown(endpoint),
    description: endpoint.description,
    types: endpoint.types,
    ordering: endpoint.ordering,
    concurrency: endpoint.concurrency,
    rateLimit: endpoint.rateLimit,
    timeout: formatDuration(endpoint.timeoutMs),
    retry: retryShown(endpoint.retry),
    breaker: breaker !== null && {
      threshold: breaker.threshold,
      cooldown: formatDuration(breaker.cooldownMs),
      whenOpen: breaker.whenOpen,
    },
    classify: endpoint.classify,
    headers: showHeaders ? endpoint.headers : namesOnly(endpoint.headers),
    ...(endpoint.kind === 'http' && {
      forwardHeaders: endpoint.forwardHeaders,
      disableAfter: disableAfterShown(endpoint.disableAfterMs),
    }),
    status: endpoint.status,
    statusReason: endpoint.statusReason,
    createdAt: new Date(endpoint.createdAt).toISOString(),
    updatedAt: new Date(endpoint.updatedAt).toISOString(),
  }
}

function targetShown(endpoint: Endpoint) {
  switch (endpoint.kind) {
    case 'http':
      return { url: endpoint.url }
    case 'handler':
      return { handler: endpoint.handler }
    case 'relay':
      return { relay: endpoint.relay, route: endpoint.route }
  }
}

function namesOnly(headers: Endpoint['headers']): Endpoint['headers'] {
  return Object.fromEntries(Object.keys(headers).map((name) => [name, hidden]))
}

function disableAfterShown(ms: number | null): string | false {
  return ms === null ? false : formatDuration(ms)
}

function urlProblem(text: string): string | null {
  if (text.length > urlLengthMax) return `must have at most ${urlLengthMax} characters`
  const url = URL.parse(text)
  if (url === null) return 'must be a URL like https://shop.example/hooks'
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'must begin with http:// or https://'
  if (url.username !== '' || url.password !== '') {
    return 'must not carry a user name or password; use headers, like {"authorization": "…"}'
  }
  return url.hash === '' && !text.includes('#') ? null : 'must not have a fragment (#…): it is never sent'
}

function secretProblem(text: string): string | null {
  return parseSecret(text) === null ? 'must be whsec_ and 24 to 64 bytes in base64' : null
}
