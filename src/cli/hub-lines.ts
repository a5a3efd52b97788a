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

/** What came of one request, in one line. */
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
}

function rowFrom({ kind: _, report, outcome, remembered: _r, ...facts }: Tried, at: string): Record<string, unknown> {
  const answer = report.kind === 'answered' ? { statusCode: report.statusCode } : { error: errorOf(report) }
  return { at, ...facts, outcome: outcome.kind, ...answer }
}

function answerOf({ report }: Tried): string {
  return report.kind === 'answered' ? String(report.statusCode) : errorOf(report)
}

function errorOf(report: Exclude<Tried['report'], { kind: 'answered' }>): string {
  return report.kind === 'unreachable' ? `${report.code}: ${report.message}` : report.message
}
