import { Buffer } from 'node:buffer'
import { unavailable } from '../../src/core/handler-errors.ts'
import type { Handler, RecordHandler } from '../../src/engines/engine.ts'

// Handlers that an engine imports, because a function cannot be sent to another process.

export const returns: Handler = async () => {}

export const throws: Handler = async (event, { attempt, deliveryId }) => {
  throw new Error(`attempt ${attempt} of ${deliveryId} for ${event.id}`)
}

export const counts: Handler = () => {
  const calls = globalThis as { exportedHandlerCalls?: number }
  calls.exportedHandlerCalls = (calls.exportedHandlerCalls ?? 0) + 1
}

/** Posts what it sees to the address in the event's headers; fails as it is answered there. It does not look at its signal. */
export const calls: Handler = async (event, { attempt, deliveryId }) => {
  const { id, type, key, tenant, contentType, headers, receivedAt, data } = event
  const text = Buffer.from(event.body).toString()
  const seen = { id, type, key, tenant, contentType, headers, receivedAt, data, text, attempt, deliveryId }
  const response = await fetch(headers.to ?? '', { method: 'POST', body: JSON.stringify(seen) })
  if (!response.ok) throw new Error(await response.text())
}

/** The same of a record. */
export const callsOfRecord: RecordHandler = async (record, { attempt, consumer }) => {
  const { topic, partition, offset, timestamp } = record
  const [key, value] = [record.key, record.value].map((bytes) => bytes && Buffer.from(bytes).toString())
  const headers = record.headers.map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')])
  const seen = { topic, partition, offset, timestamp, key, value, headers, json: record.json(), attempt, consumer }
  const to = record.headers.find(([name]) => name === 'to')?.[1] ?? Buffer.from('')
  await fetch(Buffer.from(to).toString(), { method: 'POST', body: JSON.stringify(seen) })
}

/** Never ends, and posts why its signal was aborted. */
export const hears: Handler = async ({ headers }, { signal }) => {
  const { promise: aborted, resolve } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => resolve())
  await fetch(headers.to ?? '', { method: 'POST', body: 'began' })
  await aborted
  await fetch(headers.to ?? '', { method: 'POST', body: signal.reason.name })
  await new Promise(() => {})
}

export const overwrites: Handler = ({ body }) => {
  body.fill(0)
}

export const throwsUndefined: Handler = () => {
  throw undefined
}

export const isUnavailable: Handler = () => {
  throw unavailable('crm', 'closed', { retryAfter: 5_000 })
}

/** Ends the process that it runs in. */
export const exits: Handler = () => {
  process.exit(3)
}
