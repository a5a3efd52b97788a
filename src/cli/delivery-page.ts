import type { ApiClient } from '../server/client.ts'
import { isRow } from './answers.ts'
import { type Row, textOf } from './output.ts'
import { wrap } from './table.ts'
import { printable, type Terminal } from './terminal.ts'

/** How much of a body is shown without --full. */
const bodyLengthMax = 2_000

/** What the last attempt sent: where to, its headers and its body. */
export async function printSent(terminal: Terminal, client: ApiClient, delivery: Row, full: boolean): Promise<void> {
  const { request, eventId } = delivery
  if (!isRow(request)) return
  terminal.print('')
  terminal.print(terminal.paint('bold', `sent by attempt ${textOf(request.attempt)}`))
  const target = request.target === null ? 'its endpoint was deleted' : textOf(request.target)
  printLines(terminal, '  ', target)
  for (const [name, value] of pairs(request.headers)) printLines(terminal, '  > ', `${name}: ${value}`)
  printBody(terminal, await client.bytes(`/v1/events/${encodeURIComponent(textOf(eventId))}/body`), {
    full,
    whole: `posthorn events body ${printable(textOf(eventId))}`,
  })
  if (typeof request.endpointChangedAt === 'string') {
    terminal.say(
      `the endpoint was changed at ${request.endpointChangedAt}: this attempt may have had another URL or headers`,
    )
  }
  if (textOf(request.target).startsWith('handler ')) terminal.say('the handler gets the data inside of this body')
}

export function printAttempt(terminal: Terminal, attempt: Row): void {
  const isDelivered = attempt.outcome === 'delivered'
  const status = attempt.statusCode === null || attempt.statusCode === undefined ? '' : ` ${attempt.statusCode}`
  const outcome = terminal.paint(isDelivered ? 'green' : 'red', `${printable(textOf(attempt.outcome))}${status}`)
  terminal.print('')
  terminal.print(`attempt ${attempt.number}  ${textOf(attempt.startedAt)}  ${textOf(attempt.tookMs)} ms  ${outcome}`)
  if (typeof attempt.error === 'string') printLines(terminal, '  error  ', attempt.error)
  if (typeof attempt.errorClass === 'string') printLines(terminal, '  class  ', attempt.errorClass)
  if (typeof attempt.dependency === 'string') printLines(terminal, '  dependency  ', attempt.dependency)
  for (const [name, value] of pairs(attempt.responseHeaders)) printLines(terminal, '  < ', `${name}: ${value}`)
  if (typeof attempt.responseBody === 'string' && attempt.responseBody !== '') {
    printText(terminal, attempt.responseBody)
  }
  if (typeof attempt.stack === 'string') printText(terminal, attempt.stack, '  ')
}

function printBody(terminal: Terminal, bytes: Uint8Array, { full, whole }: { full: boolean; whole: string }): void {
  const text = textIn(bytes)
  if (text === null) {
    terminal.print(`  | ${bytes.length} bytes that are not text: ${whole}`)
    return
  }
  const shown = full ? text : text.slice(0, bodyLengthMax)
  if (shown !== '') printText(terminal, shown)
  if (shown.length < text.length) {
    terminal.print(`  … ${text.length - shown.length} more characters: --full, or ${whole}`)
  }
}

/** null: it is not text. */
function textIn(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

function printText(terminal: Terminal, text: string, prefix = '  | '): void {
  for (const line of text.split(/\r?\n/)) printLines(terminal, prefix, line)
}

/** One line of somebody else's text, in as many as the terminal is narrow. */
function printLines(terminal: Terminal, prefix: string, text: string): void {
  const columns = terminal.columns()
  const safe = printable(text)
  const lines = columns === null ? [safe] : wrap(safe, Math.max(20, columns - prefix.length))
  const indent = prefix.includes('|') ? prefix : ' '.repeat(prefix.length)
  for (const [index, line] of lines.entries()) terminal.print(`${index === 0 ? prefix : indent}${line}`)
}

function pairs(headers: unknown): readonly (readonly [string, string])[] {
  return isRow(headers) ? Object.entries(headers).map(([name, value]) => [name, textOf(value)]) : []
}
