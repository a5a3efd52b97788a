import { setTimeout as wait } from 'node:timers/promises'
import { InvalidArgumentError, Option } from 'commander'
import { ApiClient, Unreachable } from '../server/client.ts'
import { rowOf, rowsOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { CommandFailed, Undecided } from './failure.ts'
import { counted, type Format, printItem, type Row, textOf } from './output.ts'
import { openProgress } from './progress.ts'
import { untilStopped } from './signals.ts'
import { printable, type Terminal } from './terminal.ts'
import { waitReason } from './wait-words.ts'

/** Until when a replay is followed. */
export type FollowUntil = 'outcomes' | 'requeued'
const untils: readonly string[] = ['outcomes', 'requeued'] satisfies readonly FollowUntil[]

const lookEveryMs = 250
/** So long without a change, and a person wants to know what it waits for. */
const stalledMs = 3_000
const explainEveryMs = 30_000
/** Waiting deliveries that are looked at for an explanation, and endpoints that it names. */
const lookedAtMax = 100
const namedMax = 5

export const followCodes = `
Exit codes with --follow: 0 every delivery was delivered (with --follow=requeued: requeued)
                          1 some failed again or were skipped, or the replay was cancelled
                          4 some were still waiting when it ended: Ctrl-C, the replay is paused, or the server stopped`

export function followOption(): Option {
  const about = 'wait until every outcome is known and show the progress; =requeued: until everything is requeued'
  return new Option('--follow [until]', about)
    .choices(untils)
    .preset('outcomes')
    .argParser((text: string): FollowUntil => {
      if (text === 'outcomes' || text === 'requeued') return text
      throw new InvalidArgumentError(
        `It is outcomes or requeued; put --follow after ${text}, or write --follow=outcomes.`,
      )
    })
}

/** A bar on a terminal, now and then a line in a pipe. Ends when the replay does not go on by itself any more. */
export async function followReplay(
  terminal: Terminal,
  started: Row,
  { until, format }: Readonly<{ until: FollowUntil; format: Format }>,
): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const id = textOf(started.id)
  const stop = new AbortController()
  void untilStopped(terminal).then(() => stop.abort())
  const label = until === 'outcomes' ? 'outcomes:' : 'requeued:'
  const progress = openProgress(terminal, { label, total: Number(started.matched) })
  const stalls = new Stalls(terminal, client, id)
  let replay = started
  try {
    while (!isDone(replay, until) && !stop.signal.aborted) {
      progress.update(doneOf(replay, until), noteOf(replay))
      await wait(lookEveryMs, undefined, { signal: stop.signal }).catch(() => {})
      replay = rowOf(await client.get(`/v1/replays/${encodeURIComponent(id)}`))
      if (!stop.signal.aborted && !isDone(replay, until)) await stalls.look(replay)
    }
  } catch (error) {
    // The replay outlives its server: a restart says nothing about how it ends.
    if (!(error instanceof Unreachable)) throw error
    throw new Undecided(`${error.message} The replay goes on with the server: posthorn replays show ${id} --follow`)
  } finally {
    progress.end()
  }
  if (format !== 'table') printItem(terminal, format, replay)
  else terminal.say(stateOf(replay))
  judge(replay, until)
}

/** Its status and how far it is, in one line. "Finished" would sound as if nothing were waiting. */
export function stateOf(replay: Row): string {
  const isOpen = replay.status === 'finished' && Number(replay.waiting) > 0
  const state = isOpen ? 'waits for outcomes' : `is ${textOf(replay.status)}`
  return `${textOf(replay.id)} ${state}: ${progressOf(replay)}`
}

/** How far a replay is. */
export function progressOf(replay: Row): string {
  const { requeued, matched, delivered } = replay
  const outcomes = typeof delivered === 'number' ? noteOf(replay) : 'outcomes were not counted'
  return `${textOf(requeued)} of ${textOf(matched)} requeued, ${outcomes}`
}

function noteOf({ delivered, failedAgain, waiting, skipped }: Row): string {
  const told = [`${textOf(delivered)} delivered`, `${textOf(failedAgain)} failed again`, `${textOf(waiting)} waiting`]
  return [...told, ...(Number(skipped) > 0 ? [`${textOf(skipped)} skipped`] : [])].join(', ')
}

function doneOf({ requeued, delivered, failedAgain, skipped }: Row, until: FollowUntil): number {
  const done = until === 'requeued' ? Number(requeued) : Number(delivered) + Number(failedAgain)
  return done + Number(skipped)
}

function isDone({ status, waiting }: Row, until: FollowUntil): boolean {
  if (status === 'running') return false
  return until === 'requeued' || status === 'paused' || Number(waiting) === 0
}

/** Throws unless everything that the replay was about was delivered, or requeued if that was the question. */
function judge({ id, status, requeued, delivered, failedAgain, waiting, skipped }: Row, until: FollowUntil): void {
  const see = `posthorn replays show ${textOf(id)} --follow`
  if (until === 'outcomes' && Number(failedAgain) > 0) {
    const many = `${textOf(failedAgain)} of ${textOf(requeued)} deliveries failed again`
    throw new CommandFailed(`${many}; see posthorn dlq list --replay ${textOf(id)} --group error`)
  }
  if (status === 'cancelled') throw new CommandFailed(`${textOf(id)} was cancelled before everything was requeued`)
  if (Number(skipped) > 0) {
    throw new CommandFailed(`${counted(Number(skipped), 'delivery')} could not be requeued: the endpoint is gone`)
  }
  if (status === 'paused') throw new Undecided(`${textOf(id)} is paused; posthorn replays resume ${textOf(id)}`)
  if (status === 'running') throw new Undecided(`${textOf(id)} goes on without you; see ${see}`)
  if (until === 'requeued') return
  if (typeof delivered !== 'number') throw new Undecided(`${textOf(id)} is older than the count of outcomes`)
  if (Number(waiting) > 0) {
    throw new Undecided(`${counted(Number(waiting), 'delivery')} still waiting for an outcome; see ${see}`)
  }
}

/** Says what the deliveries of a replay wait for when nothing has changed for a while. */
class Stalls {
  readonly #terminal: Terminal
  readonly #client: ApiClient
  readonly #id: string
  #counts = ''
  #sinceMs = performance.now()
  #saidAtMs = Number.NEGATIVE_INFINITY

  constructor(terminal: Terminal, client: ApiClient, id: string) {
    this.#terminal = terminal
    this.#client = client
    this.#id = id
  }

  async look(replay: Row): Promise<void> {
    const now = performance.now()
    const counts = progressOf(replay)
    if (counts !== this.#counts) {
      this.#counts = counts
      this.#sinceMs = now
      return
    }
    if (Number(replay.waiting) === 0 || now - this.#sinceMs < stalledMs) return
    if (now - this.#saidAtMs < explainEveryMs) return
    this.#saidAtMs = now
    for (const line of await this.#reasons()) this.#terminal.say(line)
  }

  async #reasons(): Promise<readonly string[]> {
    const query = { replay: this.#id, status: 'pending', limit: String(lookedAtMax) }
    const waiting = rowsOf(rowOf(await this.#client.get('/v1/deliveries', query)).items)
    const byEndpoint = Map.groupBy(waiting, ({ endpointId }) => textOf(endpointId))
    const named = [...byEndpoint].slice(0, namedMax)
    const lines = await Promise.all(named.map(([endpointId, [first]]) => this.#reasonAt(endpointId, first)))
    const others = byEndpoint.size > namedMax ? [`waiting at ${byEndpoint.size - namedMax} other endpoints too`] : []
    return [...lines.filter((line) => line !== null), ...others]
  }

  /** null: it was settled meanwhile, or its turn has come. */
  async #reasonAt(endpointId: string, first: Row | undefined): Promise<string | null> {
    if (first === undefined) return null
    const path = `/v1/deliveries/${encodeURIComponent(textOf(first.id))}`
    // Deleted meanwhile, it is no reason any more.
    const delivery = rowOf(await this.#client.get(path).catch(() => ({})))
    const reason = waitReason(this.#terminal, delivery)
    if (reason === null) return null
    const error = typeof delivery.lastError === 'string' ? `; last error: ${printable(delivery.lastError)}` : ''
    return `waiting at ${endpointId}: ${reason}${error}`
  }
}
