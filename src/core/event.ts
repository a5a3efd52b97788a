/** What was accepted: immutable, kept once, delivered to every endpoint that wants its type. */
export type Event = EventHead &
  Readonly<{
    /** The exact bytes that http endpoints receive, the same on every try. */
    body: Uint8Array
  }>

/** An event without its body. */
export type EventHead = Readonly<{
  id: string
  tenant: string
  type: string
  /** The ordering key; null when the sender named none. */
  key: string | null
  receivedAt: number
  contentType: string
  /** The event's own headers, sent with every try. */
  headers: Readonly<Record<string, string>>
  /**
   * Where the sender's `data` begins inside `body` when an envelope was put around it (it ends one byte before the
   * body does); null when `body` is the sender's bytes as they came.
   */
  dataOffset: number | null
  /** How it came in, if a source took it in; null when the API did. */
  request: InboundRequestFacts | null
}>

/** What a source keeps of a request beside its body: less hop-by-hop headers, host, cookie and authorization. */
export type InboundRequestFacts = Readonly<{
  /** The source's name. */
  source: string
  method: string
  /** Without the question mark; empty when there was none. */
  query: string
  headers: Readonly<Record<string, string>>
  /** The header of the signature, where the source named one of its own; providers have theirs. */
  signatureHeader?: string
}>

export const defaultTenant = 'default'

/** The sender's own bytes, without the envelope. */
export function dataOf(event: Pick<Event, 'body' | 'dataOffset'>): Uint8Array {
  return event.dataOffset === null ? event.body : event.body.subarray(event.dataOffset, event.body.length - 1)
}
