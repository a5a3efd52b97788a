import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { ApiClient, ApiProblem, Unreachable } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { wholeNumber } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { type Format, printItem, type Row, withFormat } from './output.ts'
import { untilStopped } from './signals.ts'
import { figuresIndent, type Line, statusLine, statusScreen } from './status-screen.ts'
import { cut, wrapWords } from './table.ts'
import { printable, type Terminal } from './terminal.ts'

type StatusFlags = Readonly<{ output: Format; watch?: boolean; tenant?: string; limit: number }>

const watchEveryMs = 2_000
/** As many as fit one screen with what stands above and below them. */
const shownDefault = 3
const shownMax = 500

export function addStatus(program: Command, terminal: Terminal): void {
  const status = program
    .command('status')
    .description('Show whether all is well, and if not, where to look first')
    .option('--watch', `show it again every ${watchEveryMs / 1000} seconds, until it is stopped`)
    .option('--tenant <name>', 'only of this tenant')
    .option('--limit <n>', 'how many endpoints to list at most', wholeNumber(1, shownMax), shownDefault)
    .addHelpText(
      'after',
      '\nExit code 0 whenever the server answers; posthorn doctor fails when deliveries are in trouble.',
    )
  withFormat(status).action((flags: StatusFlags) => (flags.watch === true ? watch : show)(flags, terminal))
}

async function show(flags: StatusFlags, terminal: Terminal): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const status = await read(client, flags)
  if (flags.output === 'table') for (const line of screen(terminal, client.url, status)) terminal.print(line)
  else printItem(terminal, flags.output, status)
}

/** Redraws in place on a terminal; in a pipe every look is a line. A server that goes away is waited for. */
async function watch(flags: StatusFlags, terminal: Terminal): Promise<void> {
  const stop = new AbortController()
  const stopped = untilStopped(terminal).then(() => stop.abort())
  const client = new ApiClient(clientSettings(terminal.env))
  let last: Row | null = null
  while (!stop.signal.aborted) {
    try {
      last = await read(client, flags, stop.signal)
      draw(flags, terminal, client.url, { status: last, problem: null })
    } catch (error) {
      if (stop.signal.aborted) break
      const isRefused = error instanceof ApiProblem && error.status < 500
      if (last === null || isRefused || !(error instanceof ApiProblem || error instanceof Unreachable)) throw error
      draw(flags, terminal, client.url, { status: last, problem: error.message })
    }
    await sleep(watchEveryMs, undefined, { signal: stop.signal }).catch(() => {})
  }
  await stopped
}

type Look = Readonly<{ status: Row; problem: string | null }>

function draw(flags: StatusFlags, terminal: Terminal, url: string, { status, problem }: Look): void {
  if (flags.output !== 'table') {
    if (problem === null) terminal.print(JSON.stringify(status))
    else terminal.say(printable(problem))
    return
  }
  if (terminal.columns() === null) {
    const time = new Date().toISOString()
    terminal.print(`${time}  ${problem === null ? statusLine(status) : `no answer: ${printable(problem)}`}`)
    return
  }
  const lines = screen(terminal, url, status)
  const warning = problem === null ? [] : ['', terminal.paint('red', `no answer any more: ${printable(problem)}`)]
  // Home, each line to its end, and away with what was below: nothing flickers.
  terminal.write(`\u001b[H${[...lines, ...warning].map((line) => `${line}\u001b[K\n`).join('')}\u001b[J`)
}

/** Lines that fit the terminal; in a pipe nothing is cut or wrapped. */
function screen(terminal: Terminal, url: string, status: Row): readonly string[] {
  const columns = terminal.columns()
  return statusScreen(status, { url, now: Date.now() }).flatMap(({ text, colour, long }) => {
    const fitted = columns === null ? [printable(text)] : fit(printable(text), long, columns)
    return colour === null ? fitted : fitted.map((shown) => terminal.paint(colour, shown))
  })
}

function fit(text: string, long: Line['long'], columns: number): readonly string[] {
  switch (long) {
    case 'cut':
      return [cut(text, columns)]
    case 'wrap':
      return wrapWords(text, columns, figuresIndent)
    case 'whole':
      return [text]
  }
}

async function read(client: ApiClient, { tenant, limit }: StatusFlags, signal?: AbortSignal): Promise<Row> {
  return rowOf(await client.get('/v1/status', { tenant, limit }, signal))
}
