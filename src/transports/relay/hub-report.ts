import type { Report } from '../../core/outcome.ts'
import type { Ack } from './protocol.ts'

/** As much as is kept of an answer that we got ourselves. */
const bodyLengthMax = 4 * 1_024
const headersMax = 64
const headerLengthMax = 1_024
/** Longer than any timeout. */
const tookMsMax = 24 * 3_600_000

/** What a hub reports is kept and shown like our own: whatever it is, it has our own limits. */
export function keptOf({ report, tookMs }: Ack): Readonly<{ report: Report; tookMs: number }> {
  return { report: bounded(report), tookMs: Math.min(Math.round(tookMs), tookMsMax) }
}

function bounded(report: Ack['report']): Report {
  switch (report.kind) {
    case 'answered': {
      const headers = Object.entries(report.headers).slice(0, headersMax)
      return {
        ...report,
        headers: Object.fromEntries(headers.map(([name, value]) => [name, cut(value, headerLengthMax)])),
        body: cut(report.body, bodyLengthMax),
      }
    }
    case 'unreachable':
    case 'blocked':
      return { ...report, message: report.message.toWellFormed() }
  }
}

function cut(text: string, lengthMax: number): string {
  return text.slice(0, lengthMax).toWellFormed()
}
