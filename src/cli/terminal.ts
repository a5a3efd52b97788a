import { createInterface } from 'node:readline/promises'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { styleText } from 'node:util'
import { harmless } from '../core/harmless.ts'
import { neverBlock, unreadBytesMax } from '../stdio.ts'

export { printable } from '../core/harmless.ts'

export type Env = Readonly<Record<string, string | undefined>>
export type Colour = 'green' | 'red' | 'yellow' | 'dim' | 'bold'

const columnsDefault = 80
/** How long the end of what serves others waits for who reads here. */
const flushMsMax = 1_000
/** What a shell reports for a program that wrote into a closed pipe. */
const brokenPipeExitCode = 141

/** Where a command reads and writes: data goes to stdout, messages to stderr. */
export type Terminal = Readonly<{
  env: Env
  stdin: Readable
  /** True when a person can be asked: both the question and the answer reach a terminal. */
  canAsk: boolean
  /** The width to fit tables into; null in a pipe, where nothing may be cut. */
  columns: () => number | null
  /** The width to fit messages into; null in a pipe. */
  messageColumns: () => number | null
  /** True when stderr is a terminal, where a progress line may be rewritten. */
  isLive: boolean
  /** One line of data. */
  print: (line: string) => void
  /** Data, byte by byte, but for bytes that go to a terminal, which must not obey them. A text is ours. */
  write: (bytes: Uint8Array | string) => void
  /** One message. */
  say: (line: string) => void
  /** Rewrites the last line of a live stderr; whatever is printed next takes its place. */
  rewrite: (line: string) => void
  /** Coloured if stdout is a terminal and the person has not said NO_COLOR. */
  paint: (colour: Colour, text: string) => string
  /** The same for what goes to stderr. */
  paintMessage: (colour: Colour, text: string) => string
  /** The answer to a question; empty when the person leaves with Ctrl-C or Ctrl-D. Only if `canAsk`. */
  ask: (question: string) => Promise<string>
  /** Calls back for every key until what it returns is called; null when no keyboard is there. Ctrl-C is a key then. */
  onKey: (listener: (key: string) => void) => (() => void) | null
  /** Calls back when nobody reads stdout any more, for who has something to put away first; else that is the end. */
  onUnread: (listener: () => void) => void
  /**
   * For what serves others: from now on nothing waits for who reads here. What a stalled reader leaves is dropped and
   * counted, and the end does not wait for it for long.
   */
  neverWait: () => void
  /** Resolves when everything has been handed to the operating system. */
  flush: () => Promise<void>
}>

export function openTerminal(env: Env): Terminal {
  const { stdin, stdout, stderr } = process
  let whenUnread = (): void => process.exit(brokenPipeExitCode)
  surviveReaders(() => whenUnread())
  const isLive = Boolean(stderr.isTTY) && env.TERM !== 'dumb'
  let hasLiveLine = false
  const rewrite = (line: string) => {
    hasLiveLine = line !== ''
    stderr.write(`\r\u001b[K${harmless(line)}`)
  }
  /** Data and messages share the screen with the live line: it has to go before they come. */
  const clearLine = () => {
    if (hasLiveLine) rewrite('')
  }
  let waits = true
  const drops = openDrops(stderr)
  const writeTo = (stream: Writable, bytes: Uint8Array | string) => {
    if (!waits && drops(stream)) return
    clearLine()
    stream.write(bytes)
  }
  // Much of what is printed comes from others, and a terminal would obey it.
  const writeText = (stream: typeof stdout | typeof stderr, text: string) =>
    writeTo(stream, stream.isTTY ? harmless(text) : text)
  return {
    env,
    stdin,
    canAsk: Boolean(stdin.isTTY && stderr.isTTY),
    columns: () => (stdout.isTTY ? stdout.columns || columnsDefault : null),
    messageColumns: () => (stderr.isTTY ? stderr.columns || columnsDefault : null),
    isLive,
    print: (line) => writeText(stdout, `${line}\n`),
    write: (bytes) => {
      if (typeof bytes === 'string') writeTo(stdout, bytes)
      else if (stdout.isTTY) writeText(stdout, new TextDecoder().decode(bytes))
      else writeTo(stdout, bytes)
    },
    say: (line) => writeText(stderr, `${line}\n`),
    rewrite,
    paint: (colour, text) => (env.NO_COLOR ? text : styleText(colour, text, { stream: stdout })),
    paintMessage: (colour, text) => (env.NO_COLOR ? text : styleText(colour, text, { stream: stderr })),
    ask: (question) => {
      clearLine()
      return ask(question)
    },
    onKey,
    onUnread: (listener) => {
      whenUnread = listener
    },
    neverWait: () => {
      waits = false
      // A handler that prints to a closed terminal or pipe must not end the server.
      whenUnread = () => undefined
      neverBlock(stdout)
      neverBlock(stderr)
    },
    flush: () => flushed(waits),
  }
}

async function flushed(waits: boolean): Promise<void> {
  const all = Promise.all([drained(process.stdout), drained(process.stderr)])
  await (waits ? all : Promise.race([all, wait(flushMsMax)]))
}

/** The reader of a pipe may leave at any time (`| head`), and a terminal be closed: that is no error worth a stack. */
function surviveReaders(whenUnread: () => void): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error
    whenUnread()
  })
  process.stderr.on('error', () => undefined)
}

/** Answers whether what is to be written is dropped, because nobody reads; how many were is said when somebody does. */
function openDrops(stderr: Writable): (stream: Writable) => boolean {
  let dropped = 0
  return (stream) => {
    if (stream.writableLength > unreadBytesMax) {
      dropped += 1
      return true
    }
    if (dropped > 0 && stderr.writableLength <= unreadBytesMax) {
      stderr.write(`posthorn: ${dropped} lines were dropped because nothing read them\n`)
      dropped = 0
    }
    return false
  }
}

async function ask(question: string): Promise<string> {
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  const left = new AbortController()
  prompt.once('close', () => left.abort())
  try {
    return (await prompt.question(question, { signal: left.signal })).trim()
  } catch (error) {
    if (!left.signal.aborted) throw error
    process.stderr.write('\n')
    return ''
  } finally {
    prompt.close()
  }
}

function onKey(listener: (key: string) => void): (() => void) | null {
  const { stdin } = process
  if (!stdin.isTTY) return null
  const hear = (text: string) => {
    for (const key of text) listener(key)
  }
  // A terminal that was closed has no keys any more; that is all there is to it.
  stdin.on('error', () => undefined)
  stdin.setRawMode(true).setEncoding('utf8').on('data', hear).resume()
  return () => {
    stdin.off('data', hear).pause().setRawMode(false)
  }
}

function drained(stream: Writable): Promise<void> {
  return new Promise((resolve) => void stream.write('', () => resolve()))
}
