import { Buffer } from 'node:buffer'
import type { Config } from '../config.ts'
import { PosthornError } from '../core/errors.ts'
import { defaultTenant } from '../core/event.ts'
import { sentTypeProblem } from '../core/routing.ts'
import type { Acceptance, EventInput } from '../intake/intake.ts'
import { batchEventsMax } from '../server/batch.ts'
import { inputOf, isEventType } from '../server/event-reader.ts'
import type { FieldError } from '../server/problem.ts'
import { keyProblem, readHeaders, tenantProblem } from '../server/schemas.ts'
import { invalid } from './reading.ts'

type EventOptions = Readonly<{
  /** The ordering key. */
  key?: string
  tenant?: string
  headers?: Readonly<Record<string, string>>
  /** The same event under the same key within 24 hours is answered with the first one. */
  idempotencyKey?: string
}>

export type SendOptions = EventOptions &
  Readonly<{
    /** Ends the wait. The event may have been kept all the same: with an idempotency key it can be sent again. */
    signal?: AbortSignal
  }>

/** One event of a batch. */
export type BatchEvent = EventOptions & Readonly<{ type: string; data: unknown }>

/** What became of an event that was sent: it is on disk. */
export type Sent = Readonly<{ id: string; deliveries: number; duplicate: boolean }>

type Limits = Pick<Config, 'eventBytesMax' | 'batchBytesMax'>

/** One event as the intake takes it; checked by hand, because this is the way of every event. */
export function eventInput(event: BatchEvent, { eventBytesMax }: Limits, prefix = ''): EventInput {
  const { type, key = null, tenant = defaultTenant, idempotencyKey = null } = event
  const errors: FieldError[] = []
  const note = (path: string, message: string | null) => {
    if (message !== null) errors.push({ path: `${prefix}${path}`, message })
  }
  if (typeof type !== 'string') note('type', 'must be a text')
  else if (!isEventType(type)) note('type', sentTypeProblem(type))
  note('tenant', typeof tenant === 'string' ? tenantProblem(tenant) : 'must be a text')
  if (key !== null) note('key', typeof key === 'string' ? keyProblem(key) : 'must be a text')
  if (idempotencyKey !== null) {
    note('idempotencyKey', typeof idempotencyKey === 'string' ? keyProblem(idempotencyKey) : 'must be a text')
  }
  const read = event.headers === undefined ? noHeaders : readHeaders(event.headers)
  for (const { path, message } of read.errors) note(path === '' ? 'headers' : `headers.${path}`, message)
  const bytes = jsonOf(event.data)
  if (typeof bytes === 'string') note('data', bytes)
  else if (bytes.length > eventBytesMax)
    note('data', `is larger than the ${eventBytesMax} bytes that an event may have`)
  if (errors.length > 0 || typeof bytes === 'string') throw invalid('This event', errors)
  const content = { kind: 'data' as const, bytes }
  return inputOf({ type, tenant, key, headers: read.headers, content }, { idempotencyKey, traceparent: null, hops: 0 })
}

const noHeaders: ReturnType<typeof readHeaders> = { headers: {}, errors: [] }

export function batchInputs(events: readonly BatchEvent[], limits: Limits): readonly EventInput[] {
  if (events.length > batchEventsMax) {
    const message = `has ${events.length} events, and ${batchEventsMax} is the most`
    throw invalid('This batch', [{ path: '', message }])
  }
  const inputs = events.map((event, index) => eventInput(event, limits, `[${index}].`))
  const bytes = inputs.reduce((sum, input) => sum + input.content.bytes.length, 0)
  if (bytes <= limits.batchBytesMax) return inputs
  throw invalid('This batch', [{ path: '', message: `has ${bytes} bytes, and ${limits.batchBytesMax} is the most` }])
}

export function sentItems(acceptance: Acceptance): readonly Sent[] {
  if (acceptance.kind === 'accepted') return acceptance.items
  const which = acceptance.indexes.length > 1 ? `of the events ${acceptance.indexes.join(', ')} ` : ''
  const message = `The idempotency key ${which}was used in the last 24 hours for another event; nothing was kept.`
  throw new PosthornError('conflict', message)
}

/** The JSON of a value, or why it has none. */
function jsonOf(data: unknown): Uint8Array | string {
  try {
    const text = JSON.stringify(data)
    if (text !== undefined) return Buffer.from(text)
    return `is ${data === undefined ? 'undefined' : `a ${typeof data}`}, which JSON cannot carry; send null if there is nothing to say`
  } catch (error) {
    const at = bigintIn(data, 'data', new Set())
    if (at !== null) return `has a BigInt at ${at}, which JSON cannot carry; send it as a text`
    return `cannot be written as JSON: ${error instanceof Error ? error.message.split('\n')[0] : String(error)}`
  }
}

/** Where the first BigInt is; null: there is none. */
function bigintIn(value: unknown, path: string, seen: Set<object>): string | null {
  if (typeof value === 'bigint') return path
  if (typeof value !== 'object' || value === null || seen.has(value)) return null
  seen.add(value)
  for (const [name, part] of Object.entries(value)) {
    const found = bigintIn(part, Array.isArray(value) ? `${path}[${name}]` : `${path}.${name}`, seen)
    if (found !== null) return found
  }
  return null
}
