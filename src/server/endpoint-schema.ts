import { z } from 'zod'
import { defaultBreaker } from '../core/circuit-breaker.ts'
import { formatDuration } from '../core/duration.ts'
import type { Endpoint, EndpointKind, EndpointRules, HttpTarget } from '../core/endpoint.ts'
import { orderings } from '../core/endpoint.ts'
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
  relayName,
  says,
  standardSecretPattern,
  tenant,
  urlFacts,
  wholeNumber,
} from './schemas.ts'
import { newSecret } from './secrets.ts'

const urlLengthMax = 2_048
const typesMax = 100
const secondMs = 1_000
const hourMs = 3_600 * secondMs
const disableAfterDefaultMs = 5 * 24 * hourMs

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

const httpFields = {
  url: checkedText(urlProblem)
    .transform((text) => new URL(text).href)
    .meta({ ...urlFacts, maxLength: urlLengthMax, examples: ['https://shop.example/hooks'] }),
  disableAfter: disableAfter.optional(),
  forwardHeaders: forwardHeaders.optional(),
}
const relayFields = {
  relay: relayName.meta({ description: 'The name of a relay of the same tenant.' }),
  route: relayName.meta({ description: 'What the hub calls the place where these events go.', examples: ['github'] }),
}

const onlyForRelays = 'is only for endpoints of the kind relay'
const notForRelays = {
  url: 'is not for relays: the hub says where a route leads',
  disableAfter: 'is not for relays: while a hub is away, its deliveries wait',
  forwardHeaders: 'is not for relays: what a source kept is always sent on',
} as const

/** A field of another kind of endpoint: it is known, and wrong here. */
function refused(message: string) {
  return z.never({ error: () => message }).optional()
}

export function endpointSchemas(presets: Presets) {
  const rules = ruleFields(presets)
  const { url, disableAfter, forwardHeaders } = httpFields
  const { relay, route } = relayFields
  const targets = {
    url: url.optional(),
    disableAfter,
    forwardHeaders,
    relay: relay.optional(),
    route: route.optional(),
  }
  return {
    creation: creationSchema(rules),
    change: closedObject({ ...rules, ...targets }, 'a field that can be changed'),
  }
}

/** One of two forms, chosen by hand, so that the errors are those of the form that was meant. */
function creationSchema(rules: ReturnType<typeof ruleFields>) {
  const shared = { ...rules, tenant: tenant.optional(), secret: secret.optional() }
  const kind = z.literal('http', { error: says('must be one of http, relay') }).optional()
  const http = { ...shared, kind, ...httpFields }
  const relay = { ...shared, kind: z.literal('relay'), ...relayFields }
  const forms = {
    http: closedObject({ ...http, relay: refused(onlyForRelays), route: refused(onlyForRelays) }),
    relay: closedObject({
      ...relay,
      url: refused(notForRelays.url),
      disableAfter: refused(notForRelays.disableAfter),
      forwardHeaders: refused(notForRelays.forwardHeaders),
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
  const blank: Omit<EndpointRules, 'ordering' | 'concurrency' | 'retry' | 'breaker' | 'classify'> = {
    id,
    tenant: creation.tenant ?? defaultTenant,
    description: '',
    types: ['*'],
    rateLimit: null,
    timeoutMs: 15 * secondMs,
    headers: {},
    secrets: [{ secret: creation.secret ?? newSecret(), expiresAt: null }],
    status: 'active',
    statusReason: null,
    createdAt: now,
    updatedAt: now,
  }
  return changedEndpoint({ ...blank, ...targetAndDefaults(creation, presets) }, creation, now)
}

/** What differs by kind. A hub is ours: a 4xx of its target stays one, and while it is away no breaker is needed. */
function targetAndDefaults(creation: Creation, presets: Presets) {
  if (creation.kind === 'relay') {
    const { kind, relay, route } = creation
    const classify: Classification = { '4xx': 'permanent' }
    const rules = { ordering: 'endpoint', concurrency: 100, retry: presets.relay, breaker: null, classify } as const
    return { kind, relay, route, ...rules }
  }
  const target = {
    kind: 'http',
    url: creation.url,
    forwardHeaders: false,
    disableAfterMs: disableAfterDefaultMs,
  } as const
  const rules = {
    ordering: 'none',
    concurrency: 10,
    retry: presets.webhook,
    breaker: defaultBreaker,
    classify: {},
  } as const
  return { ...target, ...rules }
}

/** What is wrong with a change for an endpoint of this kind, by field. */
export function changeProblems({ kind }: Endpoint, change: EndpointChange): readonly FieldError[] {
  const wrong = Object.entries(wrongFields[kind]).filter(([name]) => change[name as keyof EndpointChange] !== undefined)
  return wrong.map(([path, message]) => ({ path, message }))
}

const notForHandlers = 'is not for handlers'
const wrongFields: Readonly<Record<EndpointKind, Partial<Readonly<Record<keyof EndpointChange, string>>>>> = {
  http: { relay: onlyForRelays, route: onlyForRelays },
  handler: {
    url: notForHandlers,
    headers: notForHandlers,
    classify: notForHandlers,
    disableAfter: notForHandlers,
    forwardHeaders: notForHandlers,
    relay: onlyForRelays,
    route: onlyForRelays,
  },
  relay: notForRelays,
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
  switch (endpoint.kind) {
    case 'handler':
      return { ...endpoint, ...rules }
    case 'relay':
      return { ...endpoint, ...rules, relay: change.relay ?? endpoint.relay, route: change.route ?? endpoint.route }
    case 'http':
      return { ...endpoint, ...rules, ...changedTarget(endpoint, change) }
  }
}

function changedTarget(target: HttpTarget, change: EndpointChange): HttpTarget {
  return {
    kind: 'http',
    url: change.url ?? target.url,
    forwardHeaders: change.forwardHeaders ?? target.forwardHeaders,
    disableAfterMs: change.disableAfter === undefined ? target.disableAfterMs : change.disableAfter,
  }
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
