import type { Event, EventHead } from '../../core/event.ts'
import type { LightEvent } from '../bodies.ts'
import type { Row } from './driver.ts'
import { idOf } from './row-keys.ts'

/** The columns of an event as `toEventHead` reads them, and its size. */
const headNames = [
  'id',
  'tenant',
  'type',
  'key',
  'received_at',
  'content_type',
  'headers',
  'data_offset',
  'request',
] as const
export const eventHeadColumns = headNames.map((name) => `e.${name}`).join(', ')
export const eventHeadCells = headNames.length

export function toEventHead(row: Row, at: number): EventHead {
  const request = row[at + 8] as string | null
  return {
    id: idOf('evt', row[at] as string),
    tenant: row[at + 1] as string,
    type: row[at + 2] as string,
    key: row[at + 3] as string | null,
    receivedAt: row[at + 4] as number,
    contentType: row[at + 5] as string,
    headers: toHeaders(row[at + 6] as string | null),
    dataOffset: row[at + 7] as number | null,
    request: request === null ? null : JSON.parse(request),
  }
}

/** The head, the size, and the body unless that is large. */
export function toLightEvent(row: Row, at: number): LightEvent {
  const size = row[at + eventHeadCells] as number
  const body = row[at + eventHeadCells + 1] as Uint8Array | null
  return { ...toEventHead(row, at), body: body === null ? size : toBody(body) }
}

export function toEvent(row: Row, at: number): Event {
  return { ...toEventHead(row, at), body: toBody(row[at + eventHeadCells] as Uint8Array) }
}

/** The driver's Buffer as what everybody else means by bytes: the same memory. */
export function toBody(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length)
}

export function toHeaders(text: string | null): Readonly<Record<string, string>> {
  return text === null ? {} : JSON.parse(text)
}

export function fromHeaders(headers: Readonly<Record<string, string>>): string | null {
  for (const _name in headers) return JSON.stringify(headers)
  return null
}
