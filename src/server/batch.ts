import type { Buffer } from 'node:buffer'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { EventInput } from '../intake/intake.ts'
import { type Range, scanArray, scanObject } from '../intake/json-scan.ts'
import { errorsOf, eventIn, inputOf, type RequestFacts } from './event-reader.ts'
import { malformed, mediaTypeProblem } from './json.ts'
import { errorsMax, type FieldError, Problem, validationProblem } from './problem.ts'
import type { Scope } from './scope.ts'

export const batchEventsMax = 10_000

const ndjson = /^application\/(?:x-)?(?:ndjson|jsonl|json-lines) *(?:;|$)/i

/** How long a batch is read before others get their turn. */
const turnMsMax = 8

export type BatchReading = Readonly<{
  body: Buffer
  contentType: string | undefined
  facts: RequestFacts
  scope: Scope
  eventBytesMax: number
}>

/** All events of a batch, or a problem that names the wrong fields of its events, as many as can be listed. */
export async function readBatch(reading: BatchReading): Promise<readonly EventInput[]> {
  const { body, contentType, facts } = reading
  if (facts.idempotencyKey !== null) {
    const message = 'is for single events; give each event of a batch its own idempotencyKey'
    throw validationProblem([{ path: 'Idempotency-Key', message }])
  }
  const isLines = ndjson.test(contentType ?? '')
  const ranges = isLines ? linesOf(body) : itemsOf(body, contentType)
  const inputs: EventInput[] = []
  const errors: FieldError[] = []
  let unlisted = 0
  let turnBeganAt = performance.now()
  let index = 0
  for (const range of ranges) {
    if (index >= batchEventsMax) {
      throw new Problem('too_large', `The batch has more than the ${batchEventsMax} events that one may have.`)
    }
    const input = readItem(reading, range, index, isLines ? () => `Line ${lineOf(body, range.start)}` : null)
    if ('type' in input) inputs.push(input)
    // To say what is wrong costs far more than to see that something is.
    else if (errors.length < errorsMax) errors.push(...input.errors())
    else unlisted += 1
    index += 1
    if (performance.now() - turnBeganAt > turnMsMax) {
      await nextTurn()
      turnBeganAt = performance.now()
    }
  }
  if (errors.length > 0) throw validationProblem(errors, unlisted)
  return inputs
}

function readItem(
  { body, facts, scope, eventBytesMax }: BatchReading,
  range: Range,
  index: number,
  nameOf: (() => string) | null,
): EventInput | Readonly<{ errors: () => readonly FieldError[] }> {
  const bytes = body.subarray(range.start, range.end)
  if (bytes.length > eventBytesMax) {
    const detail = `The event [${index}] is larger than the ${eventBytesMax} bytes that an event may have.`
    throw new Problem('too_large', detail)
  }
  const scanned = scanObject(bytes)
  if (scanned.kind === 'problem') {
    const position = scanned.position + range.start
    throw malformed(nameOf?.() ?? `The event [${index}]`, { ...scanned, position })
  }
  const event = eventIn(bytes, scanned.members)
  if (event === null) {
    const named = ({ path, message }: FieldError) => ({ path: `[${index}].${path}`, message })
    return { errors: () => errorsOf(bytes, scanned.members).map(named) }
  }
  const { type, key, headers, data, idempotencyKey } = event
  const tenant = scope.owner(event.tenant)
  const content = { kind: 'data' as const, bytes: bytes.subarray(data.start, data.end) }
  return inputOf({ type, tenant, key, headers, content }, { ...facts, idempotencyKey })
}

function* itemsOf(body: Buffer, contentType: string | undefined): Generator<Range> {
  if (mediaTypeProblem(contentType) !== null) {
    const detail = 'Send a JSON array with content-type: application/json, or lines with application/x-ndjson.'
    throw new Problem('unsupported_media_type', detail)
  }
  const problem = yield* scanArray(body)
  if (problem !== null) throw malformed('The body', problem)
}

const newline = 0x0a

/** The lines that are not empty. A newline inside of JSON text is always escaped, so every newline ends a line. */
function* linesOf(body: Buffer): Generator<Range> {
  for (let start = 0; start < body.length; ) {
    const found = body.indexOf(newline, start)
    const end = found < 0 ? body.length : found
    if (!isBlank(body, start, end)) yield { start, end }
    start = end + 1
  }
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
