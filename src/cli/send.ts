import { Buffer } from 'node:buffer'
import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { durationMs, header } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { type EventFields, eventJson } from './event-json.ts'
import { UsageError } from './failure.ts'
import { openInput, readAll } from './input.ts'
import { counted, type Format, printItem, type Row, textOf, withFormat } from './output.ts'
import { sendBatch } from './send-batch.ts'
import type { Terminal } from './terminal.ts'
import { waitForDeliveries } from './wait.ts'

type SendOptions = EventFields &
  Readonly<{
    output: Format
    idempotencyKey?: string
    file?: string
    batch?: boolean
    raw?: boolean
    contentType?: string
    wait?: boolean
    timeout?: number
  }>

const timeoutMsDefault = 60_000

export function addSend(program: Command, terminal: Terminal): void {
  const send = program
    .command('send')
    .description('send an event, or many')
    .argument('[type]', 'the type of the event, such as order.created')
    .argument('[data]', 'its data as JSON; - reads stdin; {} if left out')
    .option('--key <key>', 'ordering key')
    .option('--tenant <name>', 'whose event it is')
    .option('--header <name=value>', 'sent with every try; may be repeated', header)
    .option('--idempotency-key <key>', 'sending twice under the same key makes one event')
    .option('--file <path>', 'read the data, the raw bytes or the batch from a file')
    .option('--batch', 'send the events of an NDJSON file or stdin')
    .option('--raw', 'send the bytes of a file or stdin as they are')
    .option('--content-type <type>', 'content type of the raw bytes (default application/octet-stream)')
    .option('--wait', 'wait until every delivery is settled; exit code 1 if one is a dead letter, 4 if time runs out')
    .option('--timeout <duration>', 'how long to wait (default 60s)', durationMs)
  withFormat(send).action((type: string | undefined, data: string | undefined, options: SendOptions) =>
    runSend(terminal, type, data, options),
  )
}

async function runSend(
  terminal: Terminal,
  type: string | undefined,
  data: string | undefined,
  options: SendOptions,
): Promise<void> {
  const problem = usageProblem(type, data, options)
  if (problem !== null) throw new UsageError(problem)
  const client = new ApiClient(clientSettings(terminal.env))
  if (options.batch) return sendBatch(terminal, client, { ...options, type })
  if (type === undefined) return
  const accepted = options.raw
    ? await sendRaw(terminal, client, type, options)
    : await sendJson(terminal, client, type, data, options)
  if (!options.wait) return printAccepted(terminal, accepted, options.output)
  if (options.output === 'table') printAccepted(terminal, accepted, 'table')
  await waitForDeliveries(terminal, client, {
    eventId: String(accepted.id),
    timeoutMs: options.timeout ?? timeoutMsDefault,
    format: options.output,
  })
}

/** What cannot be meant, in a sentence; null when all is well. */
function usageProblem(type: string | undefined, data: string | undefined, options: SendOptions): string | null {
  const { batch, raw, file, wait, timeout, contentType } = options
  if (batch && raw) return '--batch and --raw exclude each other.'
  if (contentType !== undefined && !raw) return '--content-type is for --raw.'
  if (timeout !== undefined && !wait) return '--timeout is for --wait.'
  if (data !== undefined && data !== '-' && file !== undefined) return 'Give the data or --file, not both.'
  if (data !== undefined && data !== '-' && (batch || raw)) {
    return `${batch ? '--batch' : '--raw'} reads stdin or --file; it takes no data argument.`
  }
  if (batch) return batchProblem(type, options)
  if (type === undefined) return "The event's type is missing: posthorn send order.created '{\"id\":1}'"
  if (raw && options.header !== undefined) return '--header is for JSON events; raw bytes take none.'
  return null
}

function batchProblem(type: string | undefined, options: SendOptions): string | null {
  if (options.wait) return '--wait is for a single event.'
  if (options.idempotencyKey !== undefined) {
    return 'In a batch each line has its own "idempotencyKey"; --idempotency-key is for a single event.'
  }
  const isForAll = options.key !== undefined || options.tenant !== undefined || options.header !== undefined
  if (type === undefined && isForAll) {
    return 'Without a type each line is a whole event and has its own "key", "tenant" and "headers".'
  }
  return null
}

async function sendJson(
  terminal: Terminal,
  client: ApiClient,
  type: string,
  data: string | undefined,
  options: SendOptions,
): Promise<Row> {
  const fromInput = data === '-' || options.file !== undefined
  const bytes = fromInput ? await readAll(openInput(terminal, options.file)) : Buffer.from(data ?? '{}')
  checkJson(bytes, fromInput ? (options.file ?? 'stdin') : 'the data')
  const content = { bytes: eventJson(type, bytes, options), type: 'application/json' }
  return rowOf(await client.json('POST', '/v1/events', { content, headers: idempotencyHeaders(options) }))
}

async function sendRaw(terminal: Terminal, client: ApiClient, type: string, options: SendOptions): Promise<Row> {
  const bytes = await readAll(openInput(terminal, options.file))
  const content = { bytes, type: options.contentType ?? 'application/octet-stream' }
  const query = { key: options.key, tenant: options.tenant }
  const path = `/v1/events/${encodeURIComponent(type)}`
  return rowOf(await client.json('POST', path, { content, query, headers: idempotencyHeaders(options) }))
}

/** Only the syntax, so that a typing error costs no round trip; what the fields mean is the server's business. */
function checkJson(bytes: Buffer, where: string): void {
  try {
    JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new UsageError(`${where} is not valid JSON: ${error instanceof Error ? error.message : error}`)
  }
}

function idempotencyHeaders({ idempotencyKey }: SendOptions): Record<string, string> {
  return idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
}

function printAccepted(terminal: Terminal, accepted: Row, format: Format): void {
  if (format !== 'table') {
    printItem(terminal, format, accepted)
    return
  }
  terminal.print(textOf(accepted.id))
  const count = Number(accepted.deliveries)
  const what = accepted.duplicate === true ? 'was already known' : 'was accepted'
  const where = count === 0 ? 'no endpoint wants its type' : counted(count, 'delivery')
  terminal.say(`the event ${what}: ${where}`)
}
