import type { Buffer } from 'node:buffer'
import type { EventInput } from '../intake/intake.ts'
import { type Range, scanArray, scanObject } from '../intake/json-scan.ts'
import { inputOf, type RequestFacts, readEvent } from './event-reader.ts'
import { malformed, mediaTypeProblem } from './json.ts'
import { type FieldError, Problem, validationProblem } from './problem.ts'
import type { Scope } from './scope.ts'

export const batchEventsMax = 10_000

const ndjson = /^application\/(?:x-)?(?:ndjson|jsonl|json-lines) *(?:;|$)/i

/** All events of a batch, or a problem that names every wrong field of every event. */
export function readBatch(
  body: Buffer,
  contentType: string | undefined,
  facts: RequestFacts,
  scope: Scope,
  eventBytesMax: number,
): readonly EventInput[] {
  if (facts.idempotencyKey !== null) {
    const message = 'is for single events; give each event of a batch its own idempotencyKey'
    throw validationProblem([{ path: 'Idempotency-Key', message }])
  }
  const lines = ndjson.test(contentType ?? '')
  const ranges = lines ? linesOf(body) : itemsOf(body, contentType)
  if (ranges.length > batchEventsMax) {
    throw new Problem('too_large', `The batch has ${ranges.length} events, and ${batchEventsMax} is the most.`)
  }
  const errors: FieldError[] = []
  const inputs = ranges.flatMap((range, index) => {
    const bytes = body.subarray(range.start, range.end)
    if (bytes.length > eventBytesMax) {
      const detail = `The event [${index}] is larger than the ${eventBytesMax} bytes that an event may have.`
      throw new Problem('too_large', detail)
    }
    const scanned = scanObject(bytes)
    if (scanned.kind === 'problem') {
      const what = lines ? `Line ${lineOf(body, range.start)}` : `The event [${index}]`
      throw malformed(what, { ...scanned, position: scanned.position + range.start })
    }
    const event = readEvent(bytes, scanned.members)
    if (!('type' in event)) {
      errors.push(...event.map(({ path, message }) => ({ path: `[${index}].${path}`, message })))
      return []
    }
    const { type, key, headers, data, idempotencyKey } = event
    const tenant = scope.owner(event.tenant)
    const content = { kind: 'data' as const, bytes: bytes.subarray(data.start, data.end) }
    return [inputOf({ type, tenant, key, headers, content }, { ...facts, idempotencyKey })]
  })
  if (errors.length > 0) throw validationProblem(errors)
  return inputs
}

function itemsOf(body: Buffer, contentType: string | undefined): readonly Range[] {
  if (mediaTypeProblem(contentType) !== null) {
    const detail = 'Send a JSON array with content-type: application/json, or lines with application/x-ndjson.'
    throw new Problem('unsupported_media_type', detail)
  }
  const scanned = scanArray(body)
  if (scanned.kind === 'problem') throw malformed('The body', scanned)
  return scanned.items
}

const newline = 0x0a

/** The lines that are not empty. A newline inside of JSON text is always escaped, so every newline ends a line. */
function linesOf(body: Buffer): readonly Range[] {
  const ranges: Range[] = []
  for (let start = 0; start < body.length; ) {
    const found = body.indexOf(newline, start)
    const end = found < 0 ? body.length : found
    if (!isBlank(body, start, end)) ranges.push({ start, end })
    start = end + 1
  }
  return ranges
}

function isBlank(body: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = body[at]
    if (byte !== 0x20 && byte !== 0x09 && byte !== 0x0d) return false
  }
  return true
}

function lineOf(body: Buffer, position: number): number {
  let line = 1
  for (let at = body.indexOf(newline); at >= 0 && at < position; at = body.indexOf(newline, at + 1)) line++
  return line
}
