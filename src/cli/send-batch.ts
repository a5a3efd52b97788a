import { Buffer } from 'node:buffer'
import { setTimeout as wait } from 'node:timers/promises'
import { type ApiClient, ApiProblem } from '../server/client.ts'
import { rowOf, rowsOf } from './answers.ts'
import { type EventFields, eventJson } from './event-json.ts'
import { CommandFailed, describeFailure } from './failure.ts'
import { type Line, openInput, readLines } from './input.ts'
import { counted, type Format, printItem, type Row } from './output.ts'
import { openProgress } from './progress.ts'
import type { Terminal } from './terminal.ts'

export type BatchOptions = EventFields &
  Readonly<{
    output: Format
    /** With a type each line is the data of an event of that type; without, each line is a whole event. */
    type: string | undefined
    file?: string
  }>

type Tally = { events: number; deliveries: number; duplicates: number }
type Chunk = { lines: Line[]; bytes: number }

const linesPerRequest = 1_000
const bytesPerRequest = 4 * 1024 * 1024
const waitsMax = 10
const waitMsDefault = 1_000
const newline = Buffer.from('\n')

/** Sends every line, some at a time; a request is kept whole or not at all, and says so when it fails. */
export async function sendBatch(terminal: Terminal, client: ApiClient, options: BatchOptions): Promise<void> {
  const tally: Tally = { events: 0, deliveries: 0, duplicates: 0 }
  const startedAt = performance.now()
  const progress = openProgress(terminal, { label: 'events sent:', total: null })
  for await (const chunk of chunksOf(readLines(openInput(terminal, options.file)), options)) {
    const items = await sendChunk(terminal, client, chunk, tally)
    tally.events += items.length
    for (const item of items) {
      tally.deliveries += Number(item.deliveries)
      if (item.duplicate === true) tally.duplicates += 1
      if (options.output === 'jsonl') terminal.print(JSON.stringify(item))
    }
    progress.update(tally.events)
  }
  progress.end()
  const tookS = ((performance.now() - startedAt) / 1000).toFixed(1)
  const duplicates = tally.duplicates === 0 ? '' : `, ${counted(tally.duplicates, 'duplicate')}`
  terminal.say(
    `${counted(tally.events, 'event')} sent, ${counted(tally.deliveries, 'delivery')}${duplicates}, ${tookS} s`,
  )
  if (options.output === 'json') printItem(terminal, 'json', tally)
}

async function* chunksOf(lines: AsyncIterable<Line>, options: BatchOptions): AsyncGenerator<Chunk> {
  let chunk: Chunk = { lines: [], bytes: 0 }
  for await (const line of lines) {
    const bytes = options.type === undefined ? line.bytes : eventJson(options.type, line.bytes, options)
    const isFull = chunk.lines.length === linesPerRequest || chunk.bytes + bytes.length > bytesPerRequest
    if (isFull && chunk.lines.length > 0) {
      yield chunk
      chunk = { lines: [], bytes: 0 }
    }
    chunk.lines.push({ number: line.number, bytes })
    chunk.bytes += bytes.length + newline.length
  }
  if (chunk.lines.length > 0) yield chunk
}

async function sendChunk(terminal: Terminal, client: ApiClient, chunk: Chunk, tally: Tally): Promise<readonly Row[]> {
  const bytes = Buffer.concat(chunk.lines.flatMap((line) => [line.bytes, newline]))
  for (let waits = 0; ; waits += 1) {
    try {
      const answer = await client.json('POST', '/v1/events/batch', {
        content: { bytes, type: 'application/x-ndjson' },
      })
      return rowsOf(rowOf(answer).items)
    } catch (error) {
      const waitMs = waitBefore(error)
      if (waitMs === null || waits === waitsMax) throw whyStopped(error, chunk, tally)
      if (waits === 0) terminal.say(`the server is busy (${error instanceof Error ? error.message : error}); waiting`)
      await wait(waitMs)
    }
  }
}

/** A busy server kept nothing of the batch, so the same lines may be sent again. */
function waitBefore(error: unknown): number | null {
  if (!(error instanceof ApiProblem) || (error.status !== 429 && error.status !== 503)) return null
  return error.retryAfterMs ?? waitMsDefault
}

function whyStopped(error: unknown, chunk: Chunk, tally: Tally): Error {
  const { lines, isExpected } = describeFailure(error)
  if (!isExpected) return error instanceof Error ? error : new Error(String(error))
  const first = chunk.lines[0]?.number ?? 0
  const last = chunk.lines.at(-1)?.number ?? 0
  const said = [
    `lines ${first} to ${last} were not accepted:`,
    ...lines.map((line) => `  ${inFile(line, chunk)}`),
    `${counted(tally.events, 'event')} sent before; nothing is known to be kept from line ${first} on.`,
  ]
  return new CommandFailed(said.join('\n'), { cause: error })
}

/** The server counts lines and bytes from the start of the request, a person from the start of the file. */
function inFile(text: string, chunk: Chunk): string {
  const place = (whole: string, index: number, after = '') => {
    const line = chunk.lines[index]
    return line === undefined ? whole : `line ${line.number}${after}`
  }
  return text
    .replace(/^(\s*)\[(\d+)\]\.?/, (whole, space, index) => `${space}${place(whole, Number(index), ' ')}`)
    .replace(/\bThe event \[(\d+)\]/, (whole, index) => place(whole, Number(index)))
    .replace(/^Line (\d+)\b/, (whole, number) => place(whole, Number(number) - 1))
    .replace(/ \(at byte \d+\)/, '')
}
