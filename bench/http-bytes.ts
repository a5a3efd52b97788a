import { Buffer } from 'node:buffer'
import { createHmac } from 'node:crypto'

/**
 * Just enough HTTP/1.1 for the sink and the load generator, which must cost less than what they measure: messages are
 * cut out of the byte stream by content-length or chunked framing, and nothing else is understood.
 */

/** What one message looked like; `body` is the raw region, still in chunks where the sender chunked it. */
export type OnMessage = (head: string, body: Buffer) => void

const headEnd = Buffer.from('\r\n\r\n')
const bufferedBytesMax = 1 << 20

export class MessageReader {
  readonly #onMessage: OnMessage
  #rest: Buffer | null = null

  constructor(onMessage: OnMessage) {
    this.#onMessage = onMessage
  }

  push(chunk: Buffer): void {
    const bytes = this.#rest === null ? chunk : Buffer.concat([this.#rest, chunk])
    this.#rest = null
    let from = 0
    while (from < bytes.length) {
      const end = this.#readOne(bytes, from)
      if (end === null) break
      from = end
    }
    if (from === bytes.length) return
    if (bytes.length - from > bufferedBytesMax) throw new Error('a message is larger than the reader allows')
    this.#rest = Buffer.from(bytes.subarray(from))
  }

  /** Where the message that begins at `from` ends, or null while it is not all there. */
  #readOne(bytes: Buffer, from: number): number | null {
    const headAt = bytes.indexOf(headEnd, from)
    if (headAt < 0) return null
    const head = bytes.toString('latin1', from, headAt)
    const bodyAt = headAt + headEnd.length
    const end = isChunked(head) ? endOfChunks(bytes, bodyAt) : bodyAt + contentLength(head)
    if (end === null || end > bytes.length) return null
    this.#onMessage(head, bytes.subarray(bodyAt, end))
    return end
  }
}

/** 0 when the head names none: such a message has no body here. */
export function contentLength(head: string): number {
  const match = /\r\ncontent-length:[ \t]*(\d+)/i.exec(head)
  return match === null ? 0 : Number(match[1])
}

/** The status of a response head, or 0 when it is none. */
export function statusOf(head: string): number {
  return head.startsWith('HTTP/1.') ? Number(head.slice(9, 12)) : 0
}

function isChunked(head: string): boolean {
  return /\r\ntransfer-encoding:[ \t]*chunked/i.test(head)
}

/** Where the last chunk and the empty line after it end; trailers are not known. */
function endOfChunks(bytes: Buffer, from: number): number | null {
  let at = from
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16)
    if (!Number.isInteger(size)) throw new Error('a chunk without a size')
    at = lineEnd + 2 + size + 2
    if (at > bytes.length) return null
    if (size === 0) return at
  }
}

/** Event numbers have a fixed width, so that a request can be patched in place and every event has the same size. */
export const firstEventNumber = 100_000_000
const digits = 9
const payloadBytes = 200

/** How a request says who it is from: not at all, with an idempotency key, or as GitHub does. */
export type Dress = Readonly<{ kind: 'plain' } | { kind: 'keyed' } | { kind: 'github'; secret: string }>

/** Makes requests of one shape that differ in their event number only. */
export class EventRequest {
  readonly bytes: Buffer
  /** Every place where the number stands. */
  readonly #digitsAt: readonly number[]
  readonly #bodyAt: number
  readonly #secret: string | null

  constructor(url: URL, type: string, dress: Dress = { kind: 'plain' }) {
    const head = '{"text":"'
    const tail = `","n":${firstEventNumber}}`
    const data = `${head}${'x'.repeat(payloadBytes - head.length - tail.length)}${tail}`
    const body = `{"type":"${type}","data":${data}}`
    const lines = [
      `POST ${url.pathname} HTTP/1.1`,
      `host: ${url.host}`,
      'content-type: application/json',
      `content-length: ${Buffer.byteLength(body)}`,
      ...dressLines(dress),
    ]
    const text = `${lines.join('\r\n')}\r\n\r\n${body}`
    this.bytes = Buffer.from(text)
    this.#bodyAt = this.bytes.length - body.length
    this.#digitsAt = placesOf(String(firstEventNumber), text)
    this.#secret = dress.kind === 'github' ? dress.secret : null
  }

  /** Only while no earlier write of these bytes is still under way. */
  setNumber(index: number): Buffer {
    const number = String(firstEventNumber + index)
    for (const at of this.#digitsAt) this.bytes.write(number, at, 'latin1')
    if (this.#secret !== null) {
      const signature = createHmac('sha256', this.#secret).update(this.bytes.subarray(this.#bodyAt)).digest('hex')
      this.bytes.write(signature, this.bytes.indexOf(signaturePrefix) + signaturePrefix.length, 'latin1')
    }
    return this.bytes
  }
}

const signaturePrefix = 'x-hub-signature-256: sha256='

function dressLines(dress: Dress): readonly string[] {
  switch (dress.kind) {
    case 'plain':
      return []
    case 'keyed':
      return [`idempotency-key: ${firstEventNumber}`]
    case 'github':
      return ['x-github-event: push', `x-github-delivery: ${firstEventNumber}`, `${signaturePrefix}${'0'.repeat(64)}`]
  }
}

function placesOf(word: string, text: string): readonly number[] {
  const places: number[] = []
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) places.push(at)
  return places
}

/** The index that `EventRequest.setNumber` put into a body, in whatever envelope it travelled; -1 when there is none. */
export function eventIndex(body: Buffer): number {
  let end = body.length
  while (end > 0 && body[end - 1] === 0x7d) end -= 1
  if (end < digits) return -1
  let number = 0
  for (let i = end - digits; i < end; i++) {
    const digit = (body[i] ?? 0) - 0x30
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number - firstEventNumber
}
