import { z } from 'zod'
import { formatDuration } from '../core/duration.ts'
import { defaultTenant } from '../core/event.ts'
import { headerProblem } from '../core/headers.ts'
import { parseSecret } from '../core/signature.ts'
import { type Provider, providers, type Source } from '../core/source.ts'
import { templateLengthMax, templateProblem, typeTemplateProblem } from '../core/type-template.ts'
import { providerRules } from '../intake/providers/providers.ts'
import {
  checkedText,
  choice,
  closedObject,
  description,
  duration,
  says,
  standardSecretPattern,
  tenant,
  urlFacts,
  wholeNumber,
} from './schemas.ts'
import { newSecret } from './secrets.ts'
import { instant } from './shown.ts'

const secondMs = 1_000
const minuteMs = 60 * secondMs
const dayMs = 24 * 60 * minuteMs
const toleranceDefaultMs = 5 * minuteMs
const contentTypesMax = 32
const urlLengthMax = 2_048
const secretLengthMin = 8
const secretLengthMax = 512
const prefixLengthMax = 64
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

export const sourceName = checkedText(nameProblem).meta({ pattern: namePattern.source, examples: ['github-main'] })
const secret = checkedText(secretProblem).meta({ minLength: secretLengthMin, maxLength: secretLengthMax })

/** Templates as far as a regular expression can say what they are: a header or a place in the body, between text. */
const placePattern = String.raw`\{([a-z0-9-]+|\$(\.[A-Za-z0-9_]+)+)\??\}`
const typeTemplatePattern = `^[A-Za-z0-9_:/-]+([.]([A-Za-z0-9_:/-]+|${placePattern}))*$`
const keyTemplatePattern = `^[A-Za-z0-9_:/.-]*(${placePattern}|[A-Za-z0-9_:/.-])$`

const scheme = closedObject({
  header: headerName(),
  algorithm: choice(['sha1', 'sha256', 'sha512']).default('sha256'),
  encoding: choice(['hex', 'base64']).default('hex'),
  prefix: checkedText(prefixProblem).meta({ pattern: '^[!-~]*$', maxLength: prefixLengthMax }).default(''),
  timestampHeader: headerName().nullable().default(null),
  idHeader: headerName().nullable().default(null),
})

/** What can be said about a source at any time. `bytesMax` is the largest event of this server. */
function changeableFields(bytesMax: number) {
  const listError = says(`must be a list of 1 to ${contentTypesMax} media types like application/json, or null for any`)
  return {
    description: description.optional(),
    type: checkedText(typeTemplateProblem)
      .meta({ pattern: typeTemplatePattern, maxLength: templateLengthMax, examples: ['github.{x-github-event}'] })
      .optional(),
    key: checkedText(templateProblem)
      .meta({ pattern: keyTemplatePattern, maxLength: templateLengthMax, examples: ['{$.repository.full_name}'] })
      .nullable()
      .optional(),
    tolerance: duration(secondMs, dayMs).optional(),
    bodyBytesMax: wholeNumber(1, bytesMax).optional(),
    contentTypes: z
      .array(mediaType(), { error: listError })
      .min(1, { error: listError })
      .max(contentTypesMax, { error: listError })
      .nullable()
      .optional(),
    url: checkedText(urlProblem)
      .meta({ ...urlFacts, maxLength: urlLengthMax })
      .nullable()
      .optional(),
    hmac: scheme.optional(),
  }
}

export function sourceSchemas(bytesMax: number) {
  const fields = changeableFields(bytesMax)
  const creation = closedObject({
    name: sourceName,
    provider: choice([...providers, 'svix']).transform((word): Provider => (word === 'svix' ? 'standard' : word)),
    secret: secret.optional(),
    tenant: tenant.optional(),
    ...fields,
  })
  // Asked even when single fields are wrong, so that all is told at once.
  const when = ({ value }: { value: unknown }) => typeof value === 'object' && value !== null
  return {
    creation: rules
      .reduce((schema, [field, error, holds]) => schema.refine(holds, { path: [field], error, when }), creation)
      .meta({ anyOf: [...providers, 'svix' as const].map(formOf) }),
    change: closedObject(fields, 'a field that can be changed'),
  }
}

/** The rules below for one provider, in the words of JSON Schema. */
function formOf(word: Provider | 'svix'): Readonly<Record<string, unknown>> {
  const provider = word === 'svix' ? 'standard' : word
  const { secret: need, signsUrl } = providerRules[provider]
  const properties = {
    provider: { const: word },
    ...(need === 'none' && { secret: false }),
    ...(provider === 'standard' && { secret: { pattern: standardSecretPattern } }),
    ...(provider !== 'hmac' && { hmac: false }),
    ...(signsUrl === false && { url: { type: 'null' } }),
  }
  const required = [...(need === 'given' ? ['secret'] : []), ...(provider === 'hmac' ? ['hmac'] : [])]
  return { properties, required }
}

const standardSecretWanted = 'must be whsec_ and 24 to 64 bytes in base64'
const hmacElsewhere = 'is for the provider hmac alone'
const urlElsewhere = 'is for providers that sign the address: twilio and square'

type GivenFields = Readonly<{ provider?: Provider; secret?: unknown; hmac?: unknown; url?: unknown }>
type Rule = readonly [field: string, error: string, holds: (given: GivenFields) => boolean]

/** What must be true between fields. */
const rules: readonly Rule[] = [
  ['secret', 'is required', (given) => needOf(given) !== 'given' || given.secret !== undefined],
  ['secret', 'is not for the provider none', (given) => needOf(given) !== 'none' || given.secret === undefined],
  ['secret', standardSecretWanted, (given) => isSecretOf(given.provider, given.secret)],
  ['hmac', 'is required', (given) => given.provider !== 'hmac' || given.hmac !== undefined],
  ['hmac', hmacElsewhere, (given) => given.provider === 'hmac' || given.hmac === undefined],
  ['url', urlElsewhere, (given) => mayHaveUrl(given.provider, given.url)],
]

function needOf({ provider }: GivenFields): 'given' | 'made' | 'none' | null {
  return typeof provider === 'string' ? (providerRules[provider]?.secret ?? null) : null
}

function isSecretOf(provider: Provider | undefined, secret: unknown): boolean {
  return provider !== 'standard' || typeof secret !== 'string' || parseSecret(secret) !== null
}

function mayHaveUrl(provider: Provider | undefined, url: unknown): boolean {
  if (typeof provider !== 'string' || url === undefined || url === null) return true
  return providerRules[provider]?.signsUrl !== false
}

export const sourceRotationSchema = closedObject({
  keepOldFor: duration(0, 7 * dayMs).default(dayMs),
  secret: secret.optional(),
})

type SourceSchemas = ReturnType<typeof sourceSchemas>
export type SourceCreation = z.output<SourceSchemas['creation']>
export type SourceChange = z.output<SourceSchemas['change']>

export function newSource(creation: SourceCreation, id: string, bytesMax: number, now: number): Source {
  const { name, provider } = creation
  const rules = providerRules[provider]
  const secret = creation.secret ?? (rules.secret === 'made' ? newSecret() : null)
  const blank: Source = {
    id,
    name,
    tenant: creation.tenant ?? defaultTenant,
    provider,
    description: '',
    type: rules.type ?? name,
    key: null,
    secrets: secret === null ? [] : [{ secret, expiresAt: null }],
    toleranceMs: toleranceDefaultMs,
    bodyBytesMax: bytesMax,
    contentTypes: null,
    url: null,
    hmac: null,
    createdAt: now,
    updatedAt: now,
  }
  return changedSource(blank, creation, now)
}

/** Top-level fields replace what was there; what is not named stays. */
export function changedSource(source: Source, change: SourceChange, now: number): Source {
  return {
    ...source,
    description: change.description ?? source.description,
    type: change.type ?? source.type,
    key: change.key === undefined ? source.key : change.key,
    toleranceMs: change.tolerance ?? source.toleranceMs,
    bodyBytesMax: change.bodyBytesMax ?? source.bodyBytesMax,
    contentTypes: change.contentTypes === undefined ? source.contentTypes : change.contentTypes,
    url: change.url === undefined ? source.url : change.url,
    hmac: change.hmac ?? source.hmac,
    updatedAt: now,
  }
}

/** What is wrong with a change for a source of this provider, by field. */
export function changeProblems({ provider }: Source, { url, hmac }: SourceChange) {
  return [
    ...(mayHaveUrl(provider, url) ? [] : [{ path: 'url', message: urlElsewhere }]),
    ...(hmac === undefined || provider === 'hmac' ? [] : [{ path: 'hmac', message: hmacElsewhere }]),
  ]
}

/** What is wrong with a new secret for a source of this provider; null when nothing is. */
export function rotationProblem({ provider }: Source, secret: string | undefined): string | null {
  if (providerRules[provider].secret === 'given' && secret === undefined)
    return `is required: ${provider} shows it to you`
  return isSecretOf(provider, secret) ? null : standardSecretWanted
}

/** All of a source but its secrets. */
export function sourceShown(source: Source): Record<string, unknown> {
  return {
    id: source.id,
    name: source.name,
    path: `/in/${source.name}`,
    tenant: source.tenant,
    provider: source.provider,
    description: source.description,
    type: source.type,
    key: source.key,
    tolerance: formatDuration(source.toleranceMs),
    bodyBytesMax: source.bodyBytesMax,
    contentTypes: source.contentTypes,
    url: source.url,
    hmac: source.hmac,
    createdAt: instant(source.createdAt),
    updatedAt: instant(source.updatedAt),
  }
}

function headerName() {
  const problemOf = (text: string) =>
    text.length === 0 ? 'must be the name of a header' : signatureHeaderProblem(text)
  return checkedText(problemOf, 'must be the name of a header')
    .transform((text) => text.toLowerCase())
    .meta({ pattern: '^[A-Za-z0-9-]{1,100}$', examples: ['x-signature'] })
}

/** Any name that a header can have: `webhook-…` is reserved on the way out alone. */
function signatureHeaderProblem(name: string): string | null {
  return headerProblem(`x-${name}`, '') === null ? null : 'must be the name of a header: letters, digits and hyphens'
}

const mediaTypePattern = /^[A-Za-z0-9_!#$&^.+-]{1,127}\/[A-Za-z0-9_!#$&^.+-]{1,127}$/

function mediaType() {
  const problemOf = (text: string) =>
    mediaTypePattern.test(text) ? null : 'must be a media type like application/json'
  return checkedText(problemOf)
    .transform((text) => text.toLowerCase())
    .meta({ pattern: mediaTypePattern.source, examples: ['application/json'] })
}

function nameProblem(text: string): string | null {
  if (!namePattern.test(text)) return 'must be 1 to 64 letters, digits or _ . - and begin with a letter or digit'
  return text.startsWith('src_') ? 'must not begin with src_, as ids do' : null
}

function urlProblem(text: string): string | null {
  if (text.length > urlLengthMax) return `must have at most ${urlLengthMax} characters`
  const isHttp = /^https?:\/\/[^\s#]+$/i.test(text) && URL.canParse(text)
  return isHttp ? null : 'must be the address that the provider calls, like https://hooks.example/in/twilio'
}

function secretProblem(text: string): string | null {
  if (text !== text.trim()) return 'must not have spaces around it'
  if (text.length >= secretLengthMin && text.length <= secretLengthMax) return null
  return `must have ${secretLengthMin} to ${secretLengthMax} characters`
}

function prefixProblem(text: string): string | null {
  return /^[\x21-\x7e]*$/.test(text) && text.length <= prefixLengthMax
    ? null
    : `must be at most ${prefixLengthMax} visible characters`
}
