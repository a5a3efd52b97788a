import { Buffer } from 'node:buffer'
import { z } from 'zod'
import { formatDuration, parseDuration } from '../core/duration.ts'
import { headerProblem } from '../core/headers.ts'
import { relayNameLengthMax, relayNamePattern, relayNameProblem } from '../core/relay.ts'
import { eventTypeLengthMax, eventTypeProblem, sentTypeProblem, typePatternProblem } from '../core/routing.ts'
import { didYouMean } from '../core/spelling.ts'
import { durationPattern } from './number-pattern.ts'
import { errorsMax, type FieldError, validationProblem } from './problem.ts'

// The words of the API: each schema says what it wants in one sentence that follows the name of the field.

export const keyBytesMax = 255
export const headersMax = 32
const descriptionLengthMax = 1_000
const tenantPattern = /^[A-Za-z0-9_.:-]{1,64}$/

/** A name of somebody's making is shown as far as a person would read it. */
const nameShownMax = 100

/** Reads a value or throws a problem that names every wrong field. */
export function read<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw validationProblem(fieldErrors(parsed.error.issues))
}

/** Where the schema's names are known, so that an unknown one can be told what it should have been. */
export function closedObject<S extends z.ZodRawShape>(shape: S, what = 'a field') {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys' ? unknownNames(issue.keys, known, what) : says('must be an object')(issue),
  })
}

/** An unknown name is one issue for all of them in zod; it travels as text and is taken apart in `fieldErrors`. */
function unknownNames(keys: readonly string[], known: readonly string[], what: string): string {
  return JSON.stringify(
    keys.slice(0, errorsMax).map((key) => `is not ${what}${didYouMean(key.slice(0, nameShownMax), known)}`),
  )
}

/** The first issue of every path, as the API tells it. */
export function fieldErrors(issues: readonly z.core.$ZodIssue[], prefix: readonly PropertyKey[] = []): FieldError[] {
  const errors = new Map<string, FieldError>()
  const add = (path: readonly PropertyKey[], message: string) => {
    const text = pathText([...prefix, ...path])
    if (!errors.has(text)) errors.set(text, { path: text, message })
  }
  for (const issue of issues) {
    if (issue.code !== 'unrecognized_keys') add(issue.path, issue.message)
    else {
      const messages = JSON.parse(issue.message) as string[]
      for (const [index, message] of messages.entries()) add([...issue.path, issue.keys[index] ?? ''], message)
    }
  }
  return [...errors.values()]
}

function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`
    const name = String(part).slice(0, nameShownMax)
    return text === '' ? name : `${text}.${name}`
  }, '')
}

/** The same sentence whatever is wrong with a value, except that it is not there. */
export function says(message: string) {
  return (issue: { input?: unknown }) => (issue.input === undefined ? 'is required' : message)
}

export function wholeNumber(min: number, max: number) {
  const error = says(`must be a whole number from ${min} to ${max}`)
  return z.number({ error }).int({ error }).min(min, { error }).max(max, { error })
}

export function numberBetween(min: number, max: number) {
  const error = says(`must be a number from ${min} to ${max}`)
  return z.number({ error }).min(min, { error }).max(max, { error })
}

export function choice<const T extends readonly [string, ...string[]]>(words: T) {
  return z.enum(words, { error: says(`must be one of ${words.join(', ')}`) })
}

/** In a query: one word, several with commas between them, or the parameter repeated. */
export function severalOf<const T extends readonly [string, ...string[]]>(words: T) {
  const error = says(`must be one or more of ${words.join(', ')}`)
  const isWord = (text: string): text is T[number] => words.includes(text)
  return z
    .union([z.string(), z.array(z.string())], { error })
    .transform((given) => [...new Set([given].flat().flatMap((text) => text.split(',')))])
    .refine((texts): texts is T[number][] => texts.length > 0 && texts.every(isWord), { error })
    .meta({
      type: 'array',
      anyOf: undefined,
      minItems: 1,
      items: { type: 'string', enum: [...words] },
      description: 'Several: with commas between them, or repeated.',
    })
}

/** In a body: one word, or a list of them. */
export function oneOrMore<const T extends readonly [string, ...string[]]>(words: T) {
  return z.union([z.enum(words), z.array(z.enum(words)).min(1).max(words.length)], {
    error: says(`must be one of ${words.join(', ')}, or a list of them`),
  })
}

/** Milliseconds, from `'5s'` or a number of milliseconds. */
export function duration(minMs: number, maxMs: number) {
  const error = says(`must be a duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}, like "5s" or 5000`)
  return z
    .union([z.string(), z.number()], { error })
    .transform((input) => parseDuration(input))
    .refine((ms): ms is number => ms !== null && ms >= minMs && ms <= maxMs, { error })
    .meta({
      description: `A duration from ${formatDuration(minMs)} to ${formatDuration(maxMs)}; a number is milliseconds.`,
      anyOf: [
        { type: 'string', pattern: durationPattern(minMs, maxMs) },
        { type: 'number', minimum: minMs, maximum: maxMs },
      ],
    })
}

/** A text that passes a check which tells what is wrong with it. */
export function checkedText(problemOf: (text: string) => string | null, wanted = 'must be a text') {
  return z.string({ error: says(wanted) }).check((context) => {
    const problem = problemOf(context.value)
    if (problem !== null) context.issues.push({ code: 'custom', message: problem, input: context.value })
  })
}

/** Words for people. */
export function textUpTo(lengthMax: number) {
  const problem = `must have at most ${lengthMax} characters`
  return checkedText((text) => (text.length <= lengthMax ? null : problem)).meta({ maxLength: lengthMax })
}

export function keyProblem(key: string): string | null {
  const isFitting = key.length > 0 && key.length <= keyBytesMax && Buffer.byteLength(key) <= keyBytesMax
  return isFitting ? null : `must have 1 to ${keyBytesMax} bytes`
}

export function tenantProblem(tenant: string): string | null {
  return tenantPattern.test(tenant) ? null : 'must be 1 to 64 letters, digits or _ . : -'
}

// What a check decides is written down for the OpenAPI document, as far as JSON Schema has words for it.
export const eventType = checkedText(eventTypeProblem).meta({
  pattern: String.raw`^[A-Za-z0-9_:/-]+(\.[A-Za-z0-9_:/-]+)*$`,
  maxLength: eventTypeLengthMax,
  examples: ['order.created'],
})
/** Of events that somebody looks for. */
export const typePattern = checkedText(typePatternProblem).meta({
  description: 'A type, or a pattern of types: * stands for a segment, as the last one for all that follow.',
  pattern: String.raw`^([A-Za-z0-9_:/-]+|\*)(\.([A-Za-z0-9_:/-]+|\*))*$`,
  maxLength: eventTypeLengthMax,
  examples: ['order.*'],
})
/** Of an event that somebody sends: Posthorn's own types are not for them. */
export const sentType = checkedText(sentTypeProblem).meta({
  pattern: String.raw`^(?!posthorn\.)[A-Za-z0-9_:/-]+(\.[A-Za-z0-9_:/-]+)*$`,
  maxLength: eventTypeLengthMax,
  examples: ['order.created'],
})
export const key = checkedText(keyProblem).meta({ minLength: 1, maxLength: keyBytesMax })
export const tenant = checkedText(tenantProblem).meta({ pattern: tenantPattern.source, examples: ['acme'] })

/** Of a relay, or of a route. */
export const relayName = checkedText(relayNameProblem).meta({
  pattern: relayNamePattern.source,
  maxLength: relayNameLengthMax,
  examples: ['home'],
})

/** What the OpenAPI document says of URLs: somewhat less than is taken, which JSON Schema has no words for. */
export const urlFacts = {
  pattern: String.raw`^https?://(([a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,30}[a-z0-9])?|[0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9a-f:]+\])(:[0-9]{1,5})?([/?][!-"$-~]*)?$`,
}

/** `whsec_` and 24 to 63 bytes in base64 without padding. */
export const standardSecretPattern = '^whsec_([A-Za-z0-9+/]{4}){8,21}$'

/** What people say of an endpoint or a source. */
export const description = textUpTo(descriptionLengthMax)

/** What core says of names, for the OpenAPI document. */
const headerNames = {
  pattern: "^[A-Za-z0-9!#$%&'*+.^_|~-]{1,128}$",
  not: {
    pattern:
      '^([Hh]ost|[Cc]ontent-[Ll]ength|[Tt]ransfer-[Ee]ncoding|[Cc]onnection|[Ee]xpect|[Uu]pgrade|[Tt][Ee]|[Tt]railer|[Kk]eep-[Aa]live|([Pp]roxy|[Ww]ebhook|[Pp]osthorn)-.*)$',
  },
}

/** Headers by name in lower case. */
export const headers = z
  .unknown()
  .transform((value, context) => {
    const { headers, errors } = readHeaders(value)
    for (const { path, message } of errors) {
      context.addIssue({ code: 'custom', message, path: path === '' ? [] : [path] })
    }
    return headers
  })
  .meta({
    type: 'object',
    propertyNames: headerNames,
    additionalProperties: { type: 'string', maxLength: 4_096, pattern: String.raw`^[\t\x20-\x7e\x80-\xff]*$` },
    maxProperties: headersMax,
  })
  .optional()

/** Not zod: its records pass `__proto__` over, and this runs for every event that has headers. */
export function readHeaders(value: unknown): {
  headers: Readonly<Record<string, string>>
  errors: readonly FieldError[]
} {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { headers: {}, errors: [{ path: '', message: 'must be an object of texts' }] }
  }
  const entries = Object.entries(value)
  if (entries.length > headersMax) {
    return { headers: {}, errors: [{ path: '', message: `must have at most ${headersMax} headers` }] }
  }
  const headers = new Map<string, string>()
  const errors: FieldError[] = []
  for (const [name, text] of entries) {
    const lower = name.toLowerCase()
    const problem = typeof text === 'string' ? headerProblem(name, text) : 'must be a text'
    if (problem !== null) errors.push({ path: name, message: problem })
    else if (headers.has(lower)) errors.push({ path: name, message: 'comes twice' })
    else headers.set(lower, String(text))
  }
  return { headers: Object.fromEntries(headers), errors }
}

export const pageLimitMax = 500
const pageLimitDefault = 50

const instantError = says('must be an instant like 2026-01-31T12:00:00Z')
export const instant = z
  .string({ error: instantError })
  .refine((text) => /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.test(text), {
    error: instantError,
  })
  .transform((text) => Date.parse(text))
  .refine((at) => Number.isFinite(at), { error: instantError })
  .meta({
    description: 'RFC 3339, or a date.',
    examples: ['2026-01-31T12:00:00Z'],
    anyOf: [{ format: 'date-time' }, { format: 'date' }],
  })

const limitError = says(`must be a whole number from 1 to ${pageLimitMax}`)

const cursorError = says('must be the `next` of a page of this list')

/** What every list takes: how much, and where to go on. */
export const cursorQuery = {
  limit: z
    .string({ error: limitError })
    .regex(/^\d{1,4}$/, { error: limitError })
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= pageLimitMax, { error: limitError })
    .prefault(String(pageLimitDefault))
    .meta({ type: 'integer', pattern: undefined, minimum: 1, maximum: pageLimitMax, default: pageLimitDefault }),
  cursor: z
    .string({ error: cursorError })
    .regex(/^(\d{1,16}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$/, { error: cursorError })
    .meta({ description: 'The `next` of the page before.' })
    .exactOptional(),
}

/** The same, for lists of what happened. */
export const pageQuery = {
  tenant: tenant.exactOptional(),
  type: typePattern.exactOptional(),
  key: key.exactOptional(),
  from: instant.exactOptional(),
  to: instant.exactOptional(),
  ...cursorQuery,
}

export function closedQuery<S extends z.ZodRawShape>(shape: S) {
  return closedObject(shape, 'a parameter of this list')
}

/** An id in a path: what cannot be one is simply not found. */
export function idParam(what: string, prefix: string) {
  const error = (issue: { input?: unknown }) => `There is no ${what} ${String(issue.input).slice(0, 100)}.`
  return z.string({ error }).regex(new RegExp(`^${prefix}_[0-9a-z]{1,64}$`), { error })
}
