import type { AttentionReason } from '../core/status.ts'
import { isRow, rowsOf } from './answers.ts'
import { counted, type Row, textOf } from './output.ts'
import type { Colour } from './terminal.ts'

/** `long`: what happens to it where the terminal is narrower. A command to copy is of no use in parts. */
export type Line = Readonly<{ text: string; colour: Colour | null; long: 'cut' | 'wrap' | 'whole' }>

const stateColours: Readonly<Record<string, Colour>> = { ok: 'green', degraded: 'yellow', trouble: 'red' }
/** Where the figures begin, behind their names. */
export const figuresIndent = 'dead letters  '.length
const hintsShownMax = 3

const whyWords: Readonly<Record<string, string>> = {
  breaker_open: 'breaker open',
  disabled: 'disabled',
  route_missing: 'its hub is connected and does not have the route',
  hub_away: 'its hub is not connected',
  handler_missing: 'no code has registered itself for this handler',
  dead_letters: 'dead letters',
  failing: 'most attempts fail',
  held: 'asked to be left alone (Retry-After)',
  flaky: 'some attempts fail',
  waiting_long: 'deliveries wait for too long',
  paused: 'paused by a person',
} satisfies Record<AttentionReason, string>

/** One screen: how it is, the figures, who needs attention, and what to type next. */
export function statusScreen(status: Row, { url, now }: Readonly<{ url: string; now: number }>): readonly Line[] {
  const attention = rowsOf(status.attention)
  const more = numberOf(status.attentionMore)
  const total = attention.length + more
  const title = `${counted(total, 'endpoint')} of ${shown(status.endpoints)} ${total === 1 ? 'needs' : 'need'} attention`
  return [
    line(`${textOf(status.state).toUpperCase()}  Posthorn at ${url}`, stateColours[textOf(status.state)] ?? null),
    ...figures(status, now).map((text): Line => ({ ...line(text), long: 'wrap' })),
    ...textsOf(status.problems).map((problem): Line => ({ ...line(problem, 'red'), long: 'wrap' })),
    line(''),
    line(total === 0 ? `${counted(numberOf(status.endpoints), 'endpoint')}, none needs attention` : title, 'bold'),
    ...attention.flatMap((item) => block(item, now)),
    ...(more > 0 && attention.length > 0
      ? [line(`and ${shown(more)} more: posthorn status --limit ${limitFor(total)}`)]
      : []),
    line(''),
    line('Type next:', 'bold'),
    ...textsOf(status.hints)
      .slice(0, hintsShownMax)
      .map((hint): Line => ({ ...line(hint), long: 'whole' })),
  ]
}

/** The same in one line, for a pipe. */
export function statusLine(status: Row): string {
  const [rates, waiting, dead] = [rowIn(status.rates), rowIn(status.waiting), rowIn(status.deadLetters)]
  const facts = [
    `accepted ${textOf(rates.acceptedPerSecond)}/s`,
    `delivered ${textOf(rates.deliveredPerSecond)}/s`,
    `failed ${textOf(rates.failedPerSecond)}/s`,
    `waiting ${textOf(waiting.count)}`,
    `dead letters ${textOf(dead.last24h)} in 24h`,
    `attention ${rowsOf(status.attention).length + numberOf(status.attentionMore)}`,
  ]
  return [textOf(status.state), ...facts].join('  ')
}

function figures(status: Row, now: number): readonly string[] {
  const [rates, waiting, dead] = [rowIn(status.rates), rowIn(status.waiting), rowIn(status.deadLetters)]
  const per = (name: string) => `${shown(rates[name])}/s`
  const speeds = `accepted ${per('acceptedPerSecond')}, delivered ${per('deliveredPerSecond')}, failed ${per('failedPerSecond')}`
  const reasons = Object.entries(rowIn(dead.byReason)).map(([reason, count]) => `${reason} ${shown(count)}`)
  const why = reasons.length === 0 ? '' : `: ${reasons.join(', ')}`
  return [
    `rates         ${speeds} (last ${textOf(rates.seconds)} s)`,
    `waiting       ${waitingText(waiting.count, waiting.oldestAt, now)}${countedText(waiting, now)}`,
    `dead letters  ${keptText(dead.kept)}; ${shown(dead.last24h)} in the last 24 h${why}`,
  ]
}

function block(item: Row, now: number): readonly Line[] {
  const attempts = rowIn(item.attempts)
  const dead = rowIn(item.deadLetters)
  const name = typeof item.description === 'string' && item.description !== '' ? `  ${item.description}` : ''
  const facts = [
    waitingText(item.waiting, item.oldestAt, now, ' waiting'),
    `${shown(dead.last24h)} dead in 24 h`,
    item.successRate === null
      ? 'no attempt lately'
      : `${Math.round(numberOf(item.successRate) * 100)} % of ${counted(numberOf(attempts.total), 'attempt')} delivered`,
  ]
  return [
    line(`${textOf(item.endpointId)}${name}`, 'bold'),
    line(`  ${textOf(item.target)}`),
    line(`  ${reasonText(item, now)}${errorText(item)}`, item.why === 'paused' ? 'yellow' : 'red'),
    line(`  ${facts.join(', ')}`),
  ]
}

function reasonText(item: Row, now: number): string {
  const why = whyWords[textOf(item.why)] ?? textOf(item.why)
  if (item.why === 'disabled') return `${why}: ${textOf(item.statusReason)}`
  if (item.why === 'held') return `${why}, ${untilText(item.heldUntil, now)}`
  return item.why === 'breaker_open' ? `${why}, probe ${probeText(item, now)}` : why
}

/** The error of an endpoint that is well again is old news. */
function errorText({ lastError, failingSince, why }: Row): string {
  const isNews = typeof failingSince === 'string' || why === 'dead_letters' || why === 'flaky'
  return isNews && typeof lastError === 'string' ? `; ${lastError}` : ''
}

/** When an endpoint whose breaker is not closed is tried again. */
export function probeText({ nextProbeAt, status, waiting, ...item }: Row, now: number): string {
  if (item.state === 'half_open' || item.breaker === 'half_open') return 'under way'
  if (typeof nextProbeAt !== 'string') return status === 'active' ? '-' : 'when it is resumed'
  const aheadMs = Date.parse(nextProbeAt) - now
  if (aheadMs > 0) return `in ${spanText(aheadMs)}`
  return waiting === 0 ? 'with the next delivery' : 'now'
}

function waitingText(count: unknown, oldestAt: unknown, now: number, word = ''): string {
  if (count === null) return `${word === '' ? '' : 'waiting: '}not counted yet`
  const oldest = typeof oldestAt === 'string' ? `, oldest ${spanText(now - Date.parse(oldestAt))}` : ''
  return `${shown(count)}${word}${oldest}`
}

/** Counts that are fresh need no date. */
function countedText({ countedAt }: Row, now: number): string {
  if (typeof countedAt !== 'string') return ''
  const agoMs = now - Date.parse(countedAt)
  return agoMs < 2_000 ? '' : `, counted ${spanText(agoMs)} ago`
}

function keptText(kept: unknown): string {
  return kept === null ? 'kept: not counted yet' : `${shown(kept)} kept`
}

function untilText(at: unknown, now: number): string {
  return typeof at === 'string' ? `for ${spanText(Date.parse(at) - now)}` : '-'
}

function spanText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`
  return seconds < 86_400 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`
}

function limitFor(total: number): number {
  return Math.min(500, total)
}

function line(text: string, colour: Colour | null = null): Line {
  return { text, colour, long: 'cut' }
}

function shown(value: unknown): string {
  return typeof value === 'number' ? value.toLocaleString('en') : textOf(value)
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}

function rowIn(value: unknown): Row {
  return isRow(value) ? value : {}
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(textOf) : []
}
