import { setTimeout as sleep } from 'node:timers/promises'
import { type Command, Option } from 'commander'
import { ApiClient, ApiProblem, Unreachable } from '../server/client.ts'
import { isRow } from './answers.ts'
import { words } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { counted, type Row, statusColour, textOf } from './output.ts'
import { progressOf } from './replay-follow.ts'
import { untilStopped } from './signals.ts'
import { printable, type Terminal } from './terminal.ts'

type TailFlags = Readonly<{
  type?: readonly string[]
  endpoint?: string
  kinds?: readonly string[]
  output: 'table' | 'jsonl'
}>

const firstWaitMs = 500
const longestWaitMs = 10_000

export function addTail(program: Command, terminal: Terminal): void {
  program
    .command('tail')
    .description('print events and attempts while they happen, until it is stopped')
    .option('--type <types>', 'only of these types, such as order.*,invoice.paid', words)
    .option('--endpoint <id>', 'only of this endpoint')
    .option('--kinds <kinds>', 'only these, such as attempt.settled,breaker.changed', words)
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['table', 'jsonl']).default('table'))
    .action((flags: TailFlags) => runTail(flags, terminal))
}

async function runTail(flags: TailFlags, terminal: Terminal): Promise<void> {
  const stop = new AbortController()
  const stopped = untilStopped(terminal).then(() => stop.abort())
  const client = new ApiClient(clientSettings(terminal.env))
  const following = follow(client, flags, terminal, stop.signal)
  await Promise.race([following, stopped])
  await following
}

/** Listens until it is stopped. A line that breaks is taken up again; one that never was, or is refused, is an error. */
async function follow(client: ApiClient, flags: TailFlags, terminal: Terminal, signal: AbortSignal): Promise<void> {
  let hasListened = false
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    try {
      const query = { type: flags.type?.join(','), endpoint: flags.endpoint, kinds: flags.kinds?.join(',') }
      for await (const line of client.lines('/v1/stream', query, signal)) {
        if (!hasListened) terminal.say(`listening to ${client.shownUrl} (Ctrl-C ends it)`)
        hasListened = true
        waitMs = firstWaitMs
        if (line.startsWith('data: ')) printNotice(terminal, flags, line.slice('data: '.length))
      }
    } catch (error) {
      if (signal.aborted) return
      const isRefused = error instanceof ApiProblem && error.status < 500
      if (!hasListened || isRefused || !(error instanceof ApiProblem || error instanceof Unreachable)) throw error
    }
    if (signal.aborted) return
    terminal.say(`the line to ${client.shownUrl} broke; trying again`)
    await sleep(waitMs, undefined, { signal }).catch(() => {})
  }
}

function printNotice(terminal: Terminal, { output }: TailFlags, text: string): void {
  if (output === 'jsonl') {
    terminal.print(text)
    return
  }
  const notice = noticeIn(text)
  if (notice === null) return
  // What came before tells its time; a notice of a loss has none.
  const time = (typeof notice.at === 'string' ? notice.at : new Date().toISOString()).slice(11, 23)
  terminal.print([time, textOf(notice.kind).padEnd(16), ...wordsOf(terminal, notice)].join('  '))
}

/** null for what is no notice: the line goes on. */
function noticeIn(text: string): Row | null {
  try {
    const value: unknown = JSON.parse(text)
    return isRow(value) ? value : null
  } catch {
    return null
  }
}

function wordsOf(terminal: Terminal, notice: Row): readonly string[] {
  const say = (...names: readonly string[]) => names.map((name) => printable(textOf(notice[name])))
  switch (notice.kind) {
    case 'event.accepted':
      return [...say('type', 'eventId'), counted(Number(notice.deliveries), 'delivery')]
    case 'attempt.settled': {
      const answer = notice.statusCode ?? notice.error
      const status = painted(terminal, notice)
      const facts = [`#${textOf(notice.number)}`, status, printable(textOf(answer)), `${textOf(notice.tookMs)} ms`]
      return [...say('type', 'deliveryId', 'endpointId'), ...facts]
    }
    case 'delivery.ended':
      return [...say('type', 'deliveryId', 'endpointId'), painted(terminal, notice), ...say('reason')]
    case 'breaker.changed':
      return [...say('endpointId'), say('from', 'to').join(' → ')]
    case 'endpoint.changed':
      return notice.status === null ? [...say('endpointId'), 'deleted'] : say('endpointId', 'status')
    case 'lane.stuck':
      return [...say('endpointId', 'deliveryId', 'lane'), `for ${textOf(notice.sinceMs)} ms`]
    case 'replay.changed':
      return [...say('replayId', 'status'), progressOf(notice)]
    case 'dropped':
      return [terminal.paint('yellow', `${textOf(notice.dropped)} came too fast and are left out`)]
    default: {
      const { at: _, kind: __, ...facts } = notice
      return [printable(JSON.stringify(facts))]
    }
  }
}

function painted(terminal: Terminal, notice: Row): string {
  const colour = statusColour(notice)
  return colour === null ? textOf(notice.status) : terminal.paint(colour, textOf(notice.status))
}
