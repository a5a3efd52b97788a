import type { HubEvent, Tried } from '../hub/hub-events.ts'
import type { Format } from './output.ts'
import { printable, type Terminal } from './terminal.ts'

/** Says each change of the link once: an edge that is away for a day must not fill a log with the same line. */
export function linkSayer(terminal: Terminal): (event: HubEvent) => void {
  let lastProblem: string | null = null
  return (event) => {
    switch (event.kind) {
      case 'connected':
        lastProblem = null
        terminal.say(`connected to ${event.edge} as ${printable(event.relay)} (${printable(event.software)})`)
        return
      case 'disconnected':
        // Who stays away says why at its end.
        if (event.retryInMs === null || event.message === lastProblem) return
        lastProblem = event.message
        terminal.say(`${printable(event.message)} Trying again in ${(event.retryInMs / 1000).toFixed(1)} s.`)
        return
      case 'tried':
        return
    }
  }
}

const shownLengthMax = 1_000
const shownLinesMax = 20

/** What came of one request, in one line; of one that was not taken also what was sent and what was answered. */
export function printTry(terminal: Terminal, tried: Tried, format: Format): void {
  const at = new Date().toISOString()
  if (format !== 'table') {
    terminal.print(JSON.stringify(rowFrom(tried, at)))
    return
  }
  const answer = terminal.paint(tried.outcome.kind === 'delivered' ? 'green' : 'red', printable(answerOf(tried)))
  const place = `${tried.method} ${printable(tried.path)}`
  const facts = [printable(tried.type), tried.eventId, place, answer, `${Math.round(tried.tookMs)} ms`]
  terminal.print([at.slice(11, 23), ...facts].join('  '))
  if (tried.outcome.kind === 'delivered') return
  for (const line of shownLines(textOf(tried.body))) terminal.print(`  > ${line}`)
  if (tried.report.kind !== 'answered') return
  for (const line of shownLines(tried.report.body)) terminal.print(`  < ${line}`)
}

/** As much of a body as a person wants to see between two lines. */
function shownLines(text: string): readonly string[] {
  if (text === '') return ['(no body)']
  const lines = text.slice(0, shownLengthMax).split(/\r?\n/).slice(0, shownLinesMax)
  const left = text.length - lines.join('\n').length
  return [...lines.map(printable), ...(left > 0 ? [`… ${left} more characters`] : [])]
}

function textOf(body: Uint8Array): string {
  return new TextDecoder().decode(body)
}

function rowFrom({ kind: _, report, outcome, remembered: _r, body, ...facts }: Tried, at: string): object {
  const answer =
    report.kind === 'answered'
      ? { statusCode: report.statusCode, responseBody: report.body.slice(0, shownLengthMax) }
      : { error: errorOf(report) }
  return { at, ...facts, outcome: outcome.kind, ...answer, requestBody: textOf(body).slice(0, shownLengthMax) }
}

function answerOf({ report }: Tried): string {
  return report.kind === 'answered' ? String(report.statusCode) : errorOf(report)
}

function errorOf(report: Exclude<Tried['report'], { kind: 'answered' }>): string {
  return report.kind === 'unreachable' ? `${report.code}: ${report.message}` : report.message
}
