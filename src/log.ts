import { write, writeSync } from 'node:fs'
import { Writable } from 'node:stream'
import { type DestinationStream, type Logger as PinoLogger, pino, stdTimeFunctions } from 'pino'
import pretty from 'pino-pretty'
import { harmless } from './core/harmless.ts'

/** Facts first, then the words: `log.info({ deliveryId, tookMs }, 'attempt.settled')`. */
export type Logger = Pick<PinoLogger, 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'level'>

export type LogSettings = Readonly<{ level: string; format: 'auto' | 'json' | 'pretty' }>

const bufferedLengthMin = 8_192
const bufferedLengthMax = 4 * 1024 * 1024
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
  if (!isPretty) return pino(options, buffered())
  return pino(
    { ...options, formatters: { log: withoutSecrets } },
    pretty({
      destination: harmlessStderr(),
      colorize: process.stderr.isTTY === true,
      translateTime: 'HH:MM:ss.l',
      singleLine: true,
      // By default it takes `error`, a text of ours, for an error and gives it a line.
      errorLikeObjectKeys: ['err'],
    }),
  )
}

/** What is logged may come from a peer, and a terminal would obey it. */
function harmlessStderr(): Writable {
  return new Writable({
    decodeStrings: false,
    write: (text, _encoding, done) => {
      process.stderr.write(harmless(String(text)))
      done()
    },
  })
}

/**
 * Lines are gathered and written together: one write per line would cost more than the delivery that it tells of. What
 * cannot be written (a full disk, a reader that stopped reading) is dropped: a log must not stop what it tells of.
 */
function buffered(): DestinationStream {
  let lines = ''
  let isWriting = false
  const flush = (): void => {
    if (isWriting || lines === '') return
    const text = lines
    lines = ''
    isWriting = true
    write(2, text, () => {
      isWriting = false
      if (lines.length >= bufferedLengthMin) flush()
    })
  }
  setInterval(flush, flushEveryMs).unref()
  process.on('exit', () => {
    if (!isWriting) writeLast(lines)
  })
  return {
    write(line) {
      if (lines.length < bufferedLengthMax) lines += line
      if (lines.length >= bufferedLengthMin) flush()
    },
  }
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
