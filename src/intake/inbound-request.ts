import type { Buffer } from 'node:buffer'

/** A request of a provider, as far as it is known before its body. */
export type InboundHead = Readonly<{
  method: string
  /** Path and query, undecoded. */
  url: string
  /** Without the question mark; empty when there was none. */
  query: string
  /** By name in lower case. */
  headers: Readonly<Record<string, string>>
}>

/** A request of a provider, as it came. */
export type InboundRequest = InboundHead &
  Readonly<{
    /** The exact bytes: what is signed is never what was parsed. */
    body: Buffer
    /** The body as JSON, or the fields of a form; undefined when it is neither. Read when it is first asked for. */
    fields: () => unknown
  }>

export function inboundHead({ method, url, headers }: Omit<InboundHead, 'query'>): InboundHead {
  const mark = url.indexOf('?')
  return { method, url, query: mark < 0 ? '' : url.slice(mark + 1), headers }
}

export function inboundRequest(head: InboundHead, body: Buffer): InboundRequest {
  const { headers } = head
  let read: Readonly<{ fields: unknown }> | null = null
  return {
    ...head,
    body,
    fields: () => {
      read ??= { fields: isForm(headers) ? formFields(body) : jsonFields(body) }
      return read.fields
    },
  }
}

export function isForm(headers: InboundRequest['headers']): boolean {
  return mediaTypeOf(headers['content-type']) === 'application/x-www-form-urlencoded'
}

/** The content type without its parameters; empty when there is none. */
export function mediaTypeOf(contentType: string | undefined): string {
  return (contentType?.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** Forms are taken apart on the event loop, some of them before it is known who sent them. */
export const formPairsMax = 1_000
const ampersand = 0x26

/** The pairs of a form, in their order; null when there are too many to look at. */
export function formPairs(body: Buffer): URLSearchParams | null {
  let pairs = 1
  for (let at = body.indexOf(ampersand); at >= 0; at = body.indexOf(ampersand, at + 1)) {
    pairs += 1
    if (pairs > formPairsMax) return null
  }
  // The ampersand, because a question mark at the very beginning would be taken for a query's.
  return new URLSearchParams(`&${body.toString('utf8')}`)
}

/** A text at the top of the body; null when there is none. */
export function textField(request: InboundRequest, name: string): string | null {
  const fields = request.fields()
  if (typeof fields !== 'object' || fields === null || !Object.hasOwn(fields, name)) return null
  const value = (fields as Readonly<Record<string, unknown>>)[name]
  return typeof value === 'string' && value !== '' ? value : null
}

function formFields(body: Buffer): unknown {
  const pairs = formPairs(body)
  return pairs === null ? undefined : Object.fromEntries(pairs)
}

function jsonFields(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
