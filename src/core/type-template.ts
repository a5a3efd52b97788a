import { eventTypeLengthMax, eventTypeProblem, isOwnType, sentTypeProblem } from './routing.ts'

/**
 * How a source makes the type (and the key) of an event from a request: text in which `{x-github-event}` stands for a
 * header and `{$.data.type}` or `{$.items[0].id}` for a place in the body. `{x-topic|$.topic}` is the first of them that
 * is there; a question mark at the end, as in `{$.action?}`, says that it may be missing.
 */
export type Template = readonly TemplatePart[]

type TemplatePart =
  | Readonly<{ kind: 'text'; text: string }>
  | Readonly<{ kind: 'value'; places: readonly Place[]; optional: boolean }>

type Place = Readonly<{ kind: 'header'; name: string }> | Readonly<{ kind: 'body'; path: readonly (string | number)[] }>

/** What a template is filled with: headers by name in lower case, and the body as far as it could be read. */
export type TemplateFacts = Readonly<{
  headers: Readonly<Record<string, string>>
  /** Asked for only when a part needs it; undefined when the body is no structure. */
  fields: () => unknown
}>

export const templateLengthMax = 256
const partsMax = 16
const valueLengthMax = 1_024
/** What stands where a part that is needed has no value: the event is not lost for it. */
const missingWord = 'unknown'

const headerName = /^[a-z0-9!#%&'*+.^_`~-]+$/
const bodyPath = /^\$(?:\.[\w-]+|\[\d{1,6}\])+$/
const pathStep = /\.([\w-]+)|\[(\d+)\]/g

/** Why this is no template, in words for its author; null when it is one. */
export function templateProblem(text: string): string | null {
  if (text.length === 0 || text.length > templateLengthMax) return `must have 1 to ${templateLengthMax} characters`
  const template = parts(text)
  if (typeof template === 'string') return template
  return template.length <= partsMax ? null : `must have at most ${partsMax} parts`
}

/** The same for a template of types: its own text must be fit for a type. */
export function typeTemplateProblem(text: string): string | null {
  const problem = templateProblem(text)
  if (problem !== null) return problem
  const sample = parseTemplate(text)
    .map((part) => (part.kind === 'text' ? part.text : 'x'))
    .join('')
  return sentTypeProblem(sample)
}

/** A text that passed `templateProblem`. */
export function parseTemplate(text: string): Template {
  const template = parts(text)
  if (typeof template === 'string') throw new Error(`The template ${JSON.stringify(text)} ${template}.`)
  return template
}

/** The type of an event; always fit to be one. Nothing of a request can make it fail. */
export function typeFrom(template: Template, facts: TemplateFacts, fallback: string): string {
  let text = ''
  for (const part of template) text += textFor(part, facts) ?? (isOptional(part) ? '' : missingWord)
  const type = fitType(text) ?? fitType(fallback) ?? missingWord
  // Whoever can send to a source must not be able to send what looks like one of our notifications.
  return isOwnType(type) ? `_${type}`.slice(0, eventTypeLengthMax) : type
}

/** The key of an event; null when a part that it needs is missing, or there is nothing in it. */
export function keyFrom(template: Template, facts: TemplateFacts): string | null {
  let key = ''
  for (const part of template) {
    const value = textFor(part, facts)
    if (value === null && !isOptional(part)) return null
    key += value ?? ''
  }
  return key === '' ? null : key
}

function isOptional(part: TemplatePart): boolean {
  return part.kind === 'value' && part.optional
}

/** The nearest type to a text: other characters become `_`, segments without any are left out; null when none is left. */
function fitType(text: string): string | null {
  if (eventTypeProblem(text) === null) return text
  const fit = text
    .replace(/[^A-Za-z0-9_:/.-]/g, '_')
    .split('.')
    .filter((segment) => segment !== '')
    .join('.')
    .slice(0, eventTypeLengthMax)
    .replace(/\.$/, '')
  return fit === '' ? null : fit
}

function textFor(part: TemplatePart, facts: TemplateFacts): string | null {
  if (part.kind === 'text') return part.text
  for (const place of part.places) {
    const text = shortText(valueIn(place, facts))
    if (text !== null) return text
  }
  return null
}

function valueIn(place: Place, { headers, fields }: TemplateFacts): unknown {
  switch (place.kind) {
    case 'header':
      return Object.hasOwn(headers, place.name) ? headers[place.name] : undefined
    case 'body':
      return at(fields(), place.path)
  }
}

/** Objects and lists have no place in a type or a key. */
function shortText(value: unknown): string | null {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (typeof value !== 'string' || value === '') return null
  return value.slice(0, valueLengthMax)
}

function at(fields: unknown, path: readonly (string | number)[]): unknown {
  let found = fields
  for (const step of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step)) return undefined
    found = (found as Readonly<Record<string | number, unknown>>)[step]
  }
  return found
}

/** The parts, or what is wrong. */
function parts(text: string): TemplatePart[] | string {
  const found: TemplatePart[] = []
  let from = 0
  while (from < text.length) {
    const open = text.indexOf('{', from)
    const plain = text.slice(from, open < 0 ? undefined : open)
    if (plain.includes('}')) return 'has a } without its {'
    if (plain !== '') found.push({ kind: 'text', text: plain })
    if (open < 0) break
    const close = text.indexOf('}', open)
    if (close < 0) return 'has a { without its }'
    const part = partOf(text.slice(open + 1, close))
    if (part === null) {
      return `has {${text.slice(open + 1, close)}}, which is neither a header like {x-github-event} nor a place in the body like {$.type}`
    }
    found.push(part)
    from = close + 1
  }
  return found
}

function partOf(text: string): TemplatePart | null {
  const optional = text.endsWith('?')
  const places: Place[] = []
  for (const name of (optional ? text.slice(0, -1) : text).split('|')) {
    const place = placeOf(name)
    if (place === null) return null
    places.push(place)
  }
  return { kind: 'value', places, optional }
}

function placeOf(name: string): Place | null {
  if (bodyPath.test(name)) {
    return { kind: 'body', path: [...name.matchAll(pathStep)].map(([, word, index]) => word ?? Number(index)) }
  }
  const lower = name.toLowerCase()
  return headerName.test(lower) ? { kind: 'header', name: lower } : null
}
