import { write, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino'
import pretty from 'pino-pretty'
import { harmless } from './core/harmless.ts'
import { Seldom } from './core/seldom.ts'
import { neverBlock, unreadBytesMax } from './stdio.ts'

/** Facts first, then the words: `log.info({ deliveryId, tookMs }, 'attempt.settled')`. */
export type Logger = Pick<PinoLogger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>

export type LogSettings = Readonly<{ level: string; format: 'auto' | 'json' | 'pretty' }>

/**
 * For what a peer can cause at will: writes one line per subject and period, so that nobody can flood the log. `untold`
 * is the number of lines that were left out before it.
 */
export class SeldomLog {
  readonly #log: Pick<Logger, 'info' | 'warn'>
  readonly #seldom: Seldom
  readonly #now: () => number

  constructor(log: Pick<Logger, 'info' | 'warn'>, everyMs: number, now: () => number) {
    this.#log = log
    this.#seldom = new Seldom(everyMs)
    this.#now = now
  }

  info(subject: string, facts: object, words: string): void {
    const untold = this.#seldom.pass(subject, this.#now())
    if (untold !== null) this.#log.info({ ...facts, untold }, words)
  }

  warn(subject: string, facts: object, words: string): void {
    const untold = this.#seldom.pass(subject, this.#now())
    if (untold !== null) this.#log.warn({ ...facts, untold }, words)
  }
}

const bufferedLengthMin = 8_192
const flushEveryMs = 100

/** Whatever a line carries under these names stays out of the log. */
const secretFields = new Set(['authorization', 'cookie', 'secret', 'secrets', 'apiKey', 'encryptionKey', 'password'])

/** Logs go to stderr: stdout is for data. */
export function openLog({ level, format }: LogSettings): Logger {
  const options = {
    level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: withoutSecrets },
  }
  const isPretty = format === 'pretty' || (format === 'auto' && process.stderr.isTTY === true)
  if (!isPretty) return pino(options, openDestination())
  const forPeople = pretty.prettyFactory({
    colorize: process.stderr.isTTY === true,
    translateTime: 'HH:MM:ss.l',
    singleLine: true,
    // By default it takes `error`, a text of ours, for an error and gives it a line.
    errorLikeObjectKeys: ['err'],
  })
  // What is logged may come from a peer, and a terminal would obey it.
  const shown = (line: string) => harmless(forPeople(line))
  return pino({ ...options, formatters: { log: withoutSecrets } }, openDestination(shown))
}

/**
 * Lines are gathered and written together: one write per line would cost more than the delivery that it tells of. For
 * people each goes out at once. Nobody waits for the reader: what does not fit into the buffer meanwhile is dropped, and
 * how many lines that were is said when the reader is back.
 */
function openDestination(forPeople: ((line: string) => string) | null = null): DestinationStream {
  const send = openStderr()
  let lines = ''
  let dropped = 0
  let isWriting = false
  const flush = (): void => {
    if (isWriting || lines === '') return
    const text = lines
    lines = ''
    isWriting = true
    send(text, () => {
      isWriting = false
      if (dropped > 0) tellDropped()
      if (lines.length >= bufferedLengthMin || forPeople !== null) flush()
    })
  }
  const tellDropped = (): void => {
    const line = droppedLine(dropped)
    lines += forPeople === null ? line : forPeople(line)
    dropped = 0
    flush()
  }
  setInterval(flush, flushEveryMs).unref()
  process.on('exit', () => {
    if (lines !== '') send(lines, null)
  })
  return {
    write(line) {
      if (lines.length >= unreadBytesMax) {
        dropped += 1
        return
      }
      lines += forPeople === null ? line : forPeople(line)
      if (lines.length >= bufferedLengthMin || forPeople !== null) flush()
    },
  }
}

type Send = (text: string, done: (() => void) | null) => void

/** `done` is called when the text was written, or cannot be. Without it there is no later: then now or never. */
function openStderr(): Send {
  const { stderr } = process
  if (stderr instanceof Socket) {
    neverBlock(stderr)
    // A reader that has left takes nothing with it but the log.
    stderr.on('error', () => undefined)
    return (text, done) => void stderr.write(text, () => done?.())
  }
  return (text, done) => {
    if (done === null) writeLast(text)
    else write(2, text, () => done())
  }
}

function droppedLine(lines: number): string {
  const time = new Date().toISOString()
  const advice = `${lines} log lines were dropped because nothing read them`
  return `${JSON.stringify({ level: 'warn', time, lines, advice, msg: 'log.lines_dropped' })}\n`
}

function writeLast(lines: string): void {
  try {
    writeSync(2, lines)
  } catch {
    // There is nobody left to tell.
  }
}

/** By hand, because pino's own redaction copies every line, and there is one for every try. */
function withoutSecrets(fields: Record<string, unknown>): Record<string, unknown> {
  let clean = fields
  for (const name in fields) {
    const value = fields[name]
    const safe = secretFields.has(name) ? '•••' : isPlain(value) ? withoutSecrets(value) : value
    if (safe === value) continue
    if (clean === fields) clean = { ...fields }
    clean[name] = safe
  }
  return clean
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}
