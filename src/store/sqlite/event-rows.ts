import type { Event, EventHead } from '../../core/event.ts'
import type { LightEvent } from '../bodies.ts'
import { largeBytesMin } from '../pipeline-store.ts'
import { placesOf } from '../places.ts'
import { type Cell, type CellsOf, fromHeaders, toHeaders } from './rows.ts'

/** The columns of an event, without its body. A new one has its line here, in `toEventHead` and in `eventCellsOf`. */
export const eventHead = [
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
const eventNames = [...eventHead, 'body'] as const

export const eventAt = placesOf(eventNames)
export const eventCells = eventNames.length
export const eventHeadColumns = eventHead.map((name) => `e.${name}`).join(', ')
export const eventColumns = `${eventHeadColumns}, e.body`

/** For work: of a large body only the length is read. */
export const lightEventColumns = `${eventHeadColumns},
  CASE WHEN length(e.body) < ${largeBytesMin} THEN e.body ELSE length(e.body) END`

export function toEvent(row: readonly Cell[], at: number): Event {
  return toLightEvent(row, at) as Event
}

/** Of a row that was read with `lightEventColumns`. */
export function toLightEvent(row: readonly Cell[], at: number): LightEvent {
  return { ...toEventHead(row, at), body: row[at + eventAt.body] as Uint8Array | number }
}

export function toEventHead(row: readonly Cell[], at: number): EventHead {
  return {
    id: row[at + eventAt.id] as string,
    tenant: row[at + eventAt.tenant] as string,
    type: row[at + eventAt.type] as string,
    key: row[at + eventAt.key] as string | null,
    receivedAt: row[at + eventAt.received_at] as number,
    contentType: row[at + eventAt.content_type] as string,
    headers: toHeaders(row[at + eventAt.headers] as string | null),
    dataOffset: row[at + eventAt.data_offset] as number | null,
    request: toRequest(row[at + eventAt.request] as Uint8Array | null),
  }
}

/** The head as it is written; its request is text here and bytes in the table. */
export function eventCellsOf(event: Event): CellsOf<typeof eventHead> {
  return [
    event.id,
    event.tenant,
    event.type,
    event.key,
    event.receivedAt,
    event.contentType,
    fromHeaders(event.headers),
    event.dataOffset,
    event.request === null ? null : JSON.stringify(event.request),
  ]
}

function toRequest(bytes: Uint8Array | null): Event['request'] {
  return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes))
}
