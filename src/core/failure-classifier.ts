import type { Outcome, Report } from './outcome.ts'
import { hubMemoryFailed } from './relay.ts'

/** An endpoint's own view of statuses. Keys are '100' to '599', '4xx' and '5xx'; a single code wins over its class. */
export type Classification = Readonly<Record<string, 'permanent' | 'retryable'>>

/** The longest wait that an endpoint can ask for. */
export const retryAfterMsMax = 24 * 3_600_000

/** Errors are shown, grouped and filtered by: a page of text from a peer is of no use there. */
const errorLengthMax = 300

/** The endpoint works, and asks for another time. */
const askedForLater: ReadonlySet<number> = new Set([408, 425, 429])
/** A loop does not end by trying again. */
const loopDetected = 508
const retryAfterStatuses: ReadonlySet<number> = new Set([429, 503])

/** We ran out of something; the endpoint was never asked. */
const localCodes: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOBUFS',
  'EADDRNOTAVAIL',
  'ENOSPC',
  hubMemoryFailed,
])

/** What a try meant. Header names of the report are in lower case. */
export function classify(report: Report, classification: Classification, now: number): Outcome {
  switch (report.kind) {
    case 'answered':
      return classifyAnswer(report, classification, now)
    case 'unreachable':
      return localCodes.has(report.code)
        ? { kind: 'ours', error: networkError(report.code, report.message) }
        : { kind: 'unavailable', error: networkError(report.code, report.message), retryAfterMs: null }
    case 'blocked':
      return { kind: 'permanent', reason: 'blocked_address', error: shortened(report.message) }
    case 'oversized':
      return { kind: 'permanent', reason: 'too_large', error: shortened(report.message) }
    case 'interrupted':
      return { kind: 'ours', error: shortened(report.message) }
    case 'handled':
      return { kind: 'delivered' }
    case 'thrown':
      return classifyThrown(report)
  }
}

/** The same with what the answer said of it, as far as an error has room: the target's own reason to refuse it. */
export function withAnswer(outcome: Outcome, report: Report): Outcome {
  if (outcome.kind !== 'permanent' || report.kind !== 'answered') return outcome
  const said = shortened(report.body)
  return said === '' ? outcome : { ...outcome, error: shortened(`${outcome.error}: ${said}`) }
}

function classifyThrown({ verdict, message, retryAfterMs }: Extract<Report, { kind: 'thrown' }>): Outcome {
  const error = shortened(message)
  switch (verdict) {
    case 'retryable':
    case 'unavailable':
      return {
        kind: verdict,
        error,
        retryAfterMs: retryAfterMs === null ? null : Math.min(retryAfterMs, retryAfterMsMax),
      }
    case 'permanent':
      return { kind: verdict, reason: 'rejected_by_handler', error }
    case 'ours':
      return { kind: verdict, error }
  }
}

type Answer = Extract<Report, { kind: 'answered' }>

function classifyAnswer(answer: Answer, classification: Classification, now: number): Outcome {
  const kind = kindOfStatus(answer.statusCode, classification)
  const error = answer.statusCode === loopDetected ? `HTTP ${loopDetected}: loop detected` : `HTTP ${answer.statusCode}`
  switch (kind) {
    case 'delivered':
      return { kind }
    case 'permanent':
      return { kind, reason: isGone(answer.statusCode, classification) ? 'gone' : 'permanent_status', error }
    case 'retryable':
    case 'unavailable':
      return { kind, error, retryAfterMs: retryAfterOf(answer, now) }
  }
}

function kindOfStatus(status: number, classification: Classification): Exclude<Outcome['kind'], 'ours'> {
  const override = classification[String(status)] ?? classification[classOf(status)]
  if (override === 'permanent') return 'permanent'
  if (override === 'retryable') return status >= 500 ? 'unavailable' : 'retryable'
  if (status >= 200 && status < 300) return 'delivered'
  if (askedForLater.has(status)) return 'retryable'
  if ((status >= 300 && status < 500) || status === loopDetected) return 'permanent'
  // 5xx, and what is no final answer at all: 1xx or a number that HTTP does not know.
  return 'unavailable'
}

/** Classes can be overridden for failures only. */
function classOf(status: number): string {
  if (status >= 400 && status < 500) return '4xx'
  return status >= 500 && status < 600 ? '5xx' : ''
}

/** `gone` disables the endpoint. Who names 410 in the classification has said what it means: permanent, no more. */
function isGone(status: number, classification: Classification): boolean {
  return status === 410 && classification['410'] === undefined
}

function retryAfterOf(answer: Answer, now: number): number | null {
  const value = answer.headers['retry-after']
  if (value === undefined || !retryAfterStatuses.has(answer.statusCode)) return null
  return parseRetryAfter(value, now, answer.headers.date)
}

/**
 * How long the endpoint wants us to wait, capped; null when the value makes no sense. A date is read against the
 * response's own Date header, so that a wrong clock on either side does not matter; a date in the past is 0.
 */
export function parseRetryAfter(value: string, now: number, date?: string): number | null {
  const text = value.trim()
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1_000, retryAfterMsMax)
  const at = parseHttpDate(text, now)
  if (at === null) return null
  const sentAt = (date === undefined ? null : parseHttpDate(date.trim(), now)) ?? now
  return Math.min(Math.max(0, at - sentAt), retryAfterMsMax)
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
/** RFC 9110 §5.6.7: the format of today and the two that must still be understood. */
const httpDates = [
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), (?<day>\d\d) (?<month>[A-Z][a-z]{2}) (?<year>\d{4}) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?<day>\d\d)-(?<month>[A-Z][a-z]{2})-(?<year>\d\d) (?<time>\d\d:\d\d:\d\d) GMT$/,
  /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?<month>[A-Z][a-z]{2}) (?<day>[ \d]\d) (?<time>\d\d:\d\d:\d\d) (?<year>\d{4})$/,
]

function parseHttpDate(text: string, now: number): number | null {
  for (const format of httpDates) {
    const parts = format.exec(text)?.groups
    if (parts === undefined) continue
    const [hour = 0, minute = 0, second = 0] = (parts.time ?? '').split(':').map(Number)
    const month = months.indexOf(parts.month ?? '')
    const day = Number(parts.day)
    const year = parts.year?.length === 2 ? centuryOf(Number(parts.year), now) : Number(parts.year)
    // Date.UTC would roll 31 April over to 1 May. A leap second is a legal 60.
    const isReal = new Date(Date.UTC(year, month, day)).getUTCDate() === day
    return month >= 0 && isReal && hour < 24 && minute < 60 && second <= 60
      ? Date.UTC(year, month, day, hour, minute, second)
      : null
  }
  return null
}

/** Two digits that would be more than 50 years ahead are of the century before. */
function centuryOf(twoDigits: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear()
  const year = thisYear - (thisYear % 100) + twoDigits
  return year > thisYear + 50 ? year - 100 : year
}

function networkError(code: string, message: string): string {
  return shortened(message === '' || message === code ? code : `${code}: ${message}`)
}

function shortened(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, errorLengthMax).toWellFormed()
}
