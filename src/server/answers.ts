import { z } from 'zod'
import { deliveryStatuses } from '../core/delivery.ts'
import { type EndpointKind, endpointKinds, endpointStatuses, orderings } from '../core/endpoint.ts'
import { outcomeKinds, reasons } from '../core/outcome.ts'
import { presetNames } from '../core/retry-policy.ts'
import { providers } from '../core/source.ts'
import { waits } from '../core/waiting.ts'

// What the API answers with, for the OpenAPI document and for the tests that hold every answer against it. Nothing is
// checked by these while serving: what a route shows is made by hand (shown.ts) and fast.

export const instantShown = z.iso.datetime({ precision: 3 }).meta({ description: 'RFC 3339, UTC.' })
export const durationShown = z.string().meta({ pattern: String.raw`^\d+(ms|s|m|h|d)$`, examples: ['15s'] })
export const headersShown = z.record(z.string(), z.string())

/** An id with this prefix. */
export function idShown(prefix: string) {
  return z.string().regex(new RegExp(`^${prefix}_[0-9a-z]{23}$`))
}

/** One page of a list: go on with `next` as the cursor. */
export function pageOf(item: z.ZodType) {
  const next = z.string().nullable().meta({ description: 'The cursor of the next page; null: that was all.' })
  const { id: name } = item.meta() ?? {}
  if (name === undefined) throw new Error('what a page is made of has no name')
  return z.strictObject({ items: z.array(item), next }).meta({ id: `${name}Page` })
}

export const problemShown = z
  .strictObject({
    type: z.string().regex(/^urn:posthorn:problem:[a-z_]+$/),
    title: z.string(),
    status: z.int().min(400).max(599),
    detail: z.string(),
    errors: z.array(z.strictObject({ path: z.string(), message: z.string() })).optional(),
    requestId: z.string().optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457. `errors` names every wrong field.' })

export const acceptedShown = z
  .strictObject({ id: idShown('evt'), deliveries: z.int().min(0), duplicate: z.boolean() })
  .meta({ id: 'Accepted', description: 'The event is on disk.' })

export const inboundAccepted = z
  .strictObject({ id: idShown('evt'), duplicate: z.boolean() })
  .meta({ id: 'Received', description: 'The event is on disk; a duplicate has the id of the first.' })

const eventFacts = {
  id: idShown('evt'),
  type: z.string(),
  tenant: z.string(),
  key: z.string().nullable(),
  receivedAt: instantShown,
  contentType: z.string(),
  headers: headersShown,
  size: z.int().min(0).meta({ description: 'Bytes of the body.' }),
}

export const deliveryFields = {
  id: idShown('dlv'),
  eventId: idShown('evt'),
  endpointId: idShown('ep'),
  type: z.string(),
  tenant: z.string(),
  key: z.string().nullable(),
  status: z.enum(deliveryStatuses),
  attempts: z.int().min(0),
  retryAfter: instantShown.nullable(),
  lastError: z.string().nullable(),
  reason: z.enum(reasons).nullable(),
  receivedAt: instantShown,
  lastAttemptAt: instantShown.nullable(),
  deliveredAt: instantShown.nullable(),
  waitsFor: z.enum(waits).nullable().meta({
    description: 'Why it is not tried now, if it is pending; null: it is its turn, or it does not wait.',
  }),
  waitsUntil: instantShown.nullable().meta({ description: 'When that ends; null: nobody knows.' }),
  endpointError: z.string().nullable().meta({
    description: 'The last error of its endpoint, if that is what it waits for (`breaker`, `hold`, `disabled`).',
  }),
}
export const deliveryAnswer = z.strictObject(deliveryFields).meta({ id: 'Delivery' })

export const attemptAnswer = z
  .strictObject({
    number: z.int().min(0),
    startedAt: instantShown,
    tookMs: z.number().min(0),
    outcome: z.enum(outcomeKinds),
    statusCode: z.int().nullable(),
    error: z.string().nullable(),
    responseHeaders: headersShown.nullable(),
    responseBody: z.string().nullable(),
    errorClass: z.string().nullable().meta({ description: 'The class of the error that a handler threw.' }),
    dependency: z.string().nullable().meta({ description: 'What a handler reported as unavailable.' }),
    stack: z.string().nullable().meta({ description: 'Where a handler threw.' }),
  })
  .meta({ id: 'Attempt' })

const sentAnswer = z
  .strictObject({
    attempt: z.int().min(0),
    target: z.string().nullable().meta({ description: 'A URL, a handler or the route of a relay; null: deleted.' }),
    headers: headersShown.meta({
      description:
        'Signatures are not kept, and values that may be credentials are hidden from keys that are no admin.',
    }),
    size: z.int().min(0).meta({ description: 'Bytes of the body: GET /v1/events/{id}/body.' }),
    endpointChangedAt: instantShown.nullable().meta({
      description:
        'The endpoint was changed after the attempt: its URL and headers may have been others. Null: it was not.',
    }),
  })
  .meta({ id: 'SentRequest' })

export const deliveryWithAttempts = z
  .strictObject({
    ...deliveryFields,
    request: sentAnswer.nullable().meta({ description: 'What the last attempt sent; null: there was none yet.' }),
    attemptLog: z.array(attemptAnswer),
  })
  .meta({ id: 'DeliveryWithAttempts', description: 'The newest 500 attempts, oldest first.' })

export const eventSummary = z
  .strictObject({ ...eventFacts, deliveries: z.int().min(0).meta({ description: 'How many it has.' }) })
  .meta({ id: 'EventSummary' })

export const eventAnswer = z
  .strictObject({
    ...eventFacts,
    request: z
      .strictObject({ source: z.string(), method: z.string(), query: z.string(), headers: headersShown })
      .nullable()
      .meta({
        description: 'How it came in, if a source took it in. Only an admin sees the values of signature headers.',
      }),
    deliveries: z.array(deliveryAnswer).meta({ description: 'The newest 500.' }),
    deliveriesNext: z
      .string()
      .nullable()
      .meta({ description: 'The cursor of `GET /v1/deliveries?event=…&limit=500` for those before.' }),
  })
  .meta({ id: 'Event' })

const limitsShown = {
  preset: z.enum(presetNames).optional(),
  jitter: z.union([z.number(), durationShown]),
  maxAttempts: z.int().nullable(),
  maxAge: durationShown.nullable(),
}

export const retryAnswer = z
  .discriminatedUnion('strategy', [
    z.strictObject({
      strategy: z.literal('exponential'),
      baseDelay: durationShown,
      multiplier: z.number(),
      maxDelay: durationShown,
      ...limitsShown,
    }),
    z.strictObject({ strategy: z.literal('schedule'), delays: z.array(durationShown), ...limitsShown }),
  ])
  .meta({ id: 'RetryPolicy' })

const breakerShown = z.strictObject({
  threshold: z.int(),
  cooldown: durationShown,
  whenOpen: z.enum(['park', 'fail']),
})

export const conditionAnswer = z.strictObject({
  state: z.enum(['closed', 'open', 'half_open']),
  until: instantShown.nullable().meta({ description: 'When an open breaker lets a probe through.' }),
  failures: z.int().min(0).meta({
    description: 'In a row; of an open breaker those that opened it, and the failed probes since.',
  }),
  heldUntil: instantShown.nullable().meta({ description: 'The endpoint asked for no tries before.' }),
  failingSince: instantShown.nullable().meta({ description: 'Nothing but failures since then.' }),
  lastError: z.string().nullable().meta({ description: 'Of the last try that failed; it may be long ago.' }),
  lastErrorAt: instantShown.nullable(),
})

const endpointFields = {
  id: idShown('ep'),
  tenant: z.string(),
  description: z.string(),
  types: z.array(z.string()),
  ordering: z.enum(orderings),
  concurrency: z.int(),
  rateLimit: z.strictObject({ perSecond: z.number() }).nullable(),
  timeout: durationShown,
  retry: retryAnswer,
  breaker: z.union([z.literal(false), breakerShown]),
  classify: z.record(z.string(), z.enum(['permanent', 'retryable'])),
  headers: headersShown,
  status: z.enum(endpointStatuses),
  statusReason: z.string().nullable(),
  createdAt: instantShown,
  updatedAt: instantShown,
  condition: conditionAnswer,
}
const targets = {
  http: {
    url: z.string(),
    forwardHeaders: z.boolean(),
    disableAfter: z.union([z.literal(false), durationShown]),
  },
  handler: { handler: z.string().meta({ description: 'The name that the handler was registered by.' }) },
  relay: {
    relay: z.string().meta({ description: 'The name of the relay.' }),
    route: z.string().meta({ description: 'What the hub calls its target.' }),
  },
}

/** An endpoint of any kind with these fields besides; `name` is what the OpenAPI document calls it. */
function endpointOf(name: string, more: z.ZodRawShape) {
  const nameOf = (kind: EndpointKind) => `${kind[0]?.toUpperCase()}${kind.slice(1)}${name}`
  const form = <const K extends EndpointKind>(kind: K) =>
    z.strictObject({ kind: z.literal(kind), ...endpointFields, ...targets[kind], ...more }).meta({ id: nameOf(kind) })
  const mapping = Object.fromEntries(endpointKinds.map((kind) => [kind, `#/components/schemas/${nameOf(kind)}`]))
  const discriminator = { propertyName: 'kind', mapping }
  const forms = [form('http'), form('handler'), form('relay')] as const
  return z.discriminatedUnion('kind', forms).meta({ id: name, discriminator })
}

const secretShown = z.string().nullable().meta({ description: 'whsec_…; null for endpoints that sign nothing.' })
const warnings = z.array(z.string()).meta({ description: 'What is allowed and probably not meant, in sentences.' })
export const endpointAnswer = endpointOf('Endpoint', {})
export const endpointWithSecret = endpointOf('EndpointWithSecret', { secret: secretShown })
export const endpointCreated = endpointOf('CreatedEndpoint', { secret: secretShown, warnings })
export const endpointChanged = endpointOf('ChangedEndpoint', { warnings })
export const secretAnswer = z.strictObject({ secret: secretShown })

const sourceFields = {
  id: idShown('src'),
  name: z.string(),
  path: z.string().meta({ description: 'Where the provider sends to.' }),
  tenant: z.string(),
  provider: z.enum(providers),
  description: z.string(),
  type: z.string(),
  key: z.string().nullable(),
  tolerance: durationShown,
  bodyBytesMax: z.int(),
  contentTypes: z.array(z.string()).nullable(),
  url: z.string().nullable(),
  hmac: z
    .strictObject({
      header: z.string(),
      algorithm: z.enum(['sha1', 'sha256', 'sha512']),
      encoding: z.enum(['hex', 'base64']),
      prefix: z.string(),
      timestampHeader: z.string().nullable(),
      idHeader: z.string().nullable(),
    })
    .nullable(),
  createdAt: instantShown,
  updatedAt: instantShown,
}
export const sourceAnswer = z.strictObject(sourceFields).meta({ id: 'Source' })

const sourceSecret = z.string().nullable().meta({ description: 'null for the provider none.' })
export const sourceWithSecret = z
  .strictObject({ ...sourceFields, secret: sourceSecret })
  .meta({ id: 'SourceWithSecret' })
export const sourceSecretAnswer = z.strictObject({ secret: sourceSecret })
