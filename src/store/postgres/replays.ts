import type { Settled } from '../../core/delivery.ts'
import { laneOf } from '../../core/lanes.ts'
import { replayed } from '../../core/lifecycle.ts'
import { type Replay, type ReplayStatus, replayMoved, stepWithoutEndpoint } from '../../core/replay.ts'
import {
  isRecovery,
  mayRequeue,
  type Recovery,
  reachesTenant,
  selectedDeliveries,
  selectionStart,
} from '../../core/selection.ts'
import type { ReplayStep, ReplayStepped } from '../replay-store.ts'
import { int4s, keys, texts } from './arrays.ts'
import { lanesMax, waitValues } from './commit.ts'
import { type Queryable, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'
import { slotsOf } from './lane-slots.ts'
import { beforeAll, keyBefore, matching, type Seen, walkMatching } from './matching.ts'
import { type Recoverable, walkRecovery } from './recovery.ts'
import { type ReplayJob, replayColumns, toJob } from './replay-rows.ts'
import type { Revival } from './revival.ts'
import { idOf } from './row-keys.ts'
import type { Write, WriteStream } from './write-stream.ts'

/** A step looks at no more rows than this, whatever it finds. */
const looksPerStepMax = 5_000

export type ReplaysParts = Readonly<{
  on: Queryable
  schema: string
  endpoints: EndpointTable
  revival: Revival
  /** For what may go through ordered lanes, or not. */
  streamFor: (isLaned: boolean) => WriteStream
}>

/** What a step is about to do: found and decided, and not written. */
type Step = Readonly<{
  job: ReplayJob
  doneKey: string
  exhausted: boolean
  skipped: number
  now: number
  requeue: readonly Readonly<{ to: ReturnType<typeof replayed> }>[]
  make: readonly Made[]
}>

type Made = Readonly<{ id: string; eventId: string; endpointId: string; lane: string | null }>

/** `done`: places of what was requeued; `behind`: keys of what waits behind others now. */
type Stepped = Readonly<{ lost?: true; done?: readonly number[]; behind?: readonly string[] | null }>

/** Replay jobs: a step is read and decided first, and written in one piece with the job's progress. */
export class Replays {
  readonly #parts: ReplaysParts
  readonly #step: Write<Step, Stepped>

  constructor(parts: ReplaysParts) {
    this.#parts = parts
    this.#step = stepWrite(parts.endpoints)
  }

  async create(replay: Replay, lastKey: string): Promise<Replay> {
    const since = selectionStart(replay.selection)
    const fromKey = since === null ? beforeAll : keyBefore(since)
    await this.#parts.streamFor(false).write(createWrite, { replay, fromKey, lastKey })
    return replay
  }

  async change(id: string, from: ReplayStatus, to: ReplayStatus, now: number): Promise<void> {
    const job = await this.#find(id)
    const moved = job && replayMoved(job.replay, { from, to }, now)
    if (moved !== null) await this.#parts.streamFor(false).write(changeWrite, { id, from, moved })
  }

  async step(request: ReplayStep): Promise<ReplayStepped> {
    const job = await this.#find(request.id)
    if (job === null || job.replay.status !== 'running') return { replay: job?.replay ?? null, endpointIds: [] }
    const step = await this.#planBounded(job, request)
    const isLaned = [...step.requeue.map(({ to }) => to), ...step.make].some(({ lane }) => lane !== null)
    const { done = [], behind } = await this.#parts.streamFor(isLaned).write(this.#step, step)
    const waits = new Set((behind ?? []).map((key) => idOf('dlv', key)))
    const requeued = done.flatMap((place) => step.requeue[place - 1]?.to ?? [])
    const due = [...requeued, ...step.make].filter(({ id }) => !waits.has(id))
    const replay = (await this.#find(request.id))?.replay ?? null
    return { replay, endpointIds: [...new Set(due.map(({ endpointId }) => endpointId))] }
  }

  /** A step into many lanes is a smaller one: it locks the slots of all of them. */
  async #planBounded(job: ReplayJob, request: ReplayStep): Promise<Step> {
    const step = await this.#plan(job, request)
    const slots = slotsOf(lanesOf(step, this.#parts.endpoints))
    if (slots === null || slots.length <= lanesMax) return step
    return this.#plan(job, { ...request, limit: lanesMax })
  }

  async #plan(job: ReplayJob, request: ReplayStep): Promise<Step> {
    const { selection, tenant } = job.replay
    if (isRecovery(selection)) return this.#planRecovery(job, selection, request)
    const bounds = { span: job.span, limit: request.limit, looksMax: looksPerStepMax }
    const found = await matching(selectedDeliveries(selection, tenant), this.#parts)
    const walked = await walkMatching(this.#parts, found, bounds)
    const ids = walked.keys.map((key) => idOf('dlv', key))
    const { doneKey, exhausted } = walked
    return { job, doneKey, exhausted, now: request.now, make: [], ...(await this.#requeue(ids, request.now)) }
  }

  async #planRecovery(job: ReplayJob, selection: Recovery, request: ReplayStep): Promise<Step> {
    const { endpoints } = this.#parts
    const { tenant } = job.replay
    const { recover, now } = request
    // Others may have removed it.
    await endpoints.reload()
    const { no, removed } = endpoints.find(selection.endpointId)
    if (removed || (recover !== null && !reachesTenant(tenant, recover.tenant))) {
      const { skipped, exhausted } = stepWithoutEndpoint(job.replay)
      return { job, doneKey: job.span.last, exhausted, skipped, now, requeue: [], make: [] }
    }
    if (recover === null) throw new Error(`${request.id} recovers an endpoint, so the step has to say what it wants`)
    const endpoint = { no, tenant: recover.tenant, types: recover.types }
    const bounds = { span: job.span, limit: request.limit, looksMax: looksPerStepMax }
    const { items, doneKey, exhausted } = await walkRecovery(this.#parts, selection, endpoint, bounds)
    const again = await this.#requeue(
      items.flatMap((item) => (item.kind === 'again' ? [item.deliveryId] : [])),
      now,
    )
    return { job, doneKey, exhausted, now, ...again, make: makes(items, selection.endpointId, request) }
  }

  /** What was found, as it shall be. What belongs to a removed endpoint stays: it would wait for nobody. */
  async #requeue(ids: readonly string[], now: number): Promise<Pick<Step, 'requeue' | 'skipped'>> {
    const { endpoints, revival } = this.#parts
    const requeue: { to: ReturnType<typeof replayed> }[] = []
    let skipped = 0
    for (const { delivery } of await revival.read(ids)) {
      if (mayRequeue(delivery, endpoints.find(delivery.endpointId).removed)) {
        requeue.push({ to: replayed(delivery as Settled, now) })
      } else skipped += 1
    }
    return { requeue, skipped }
  }

  async #find(id: string): Promise<ReplayJob | null> {
    const { on, schema } = this.#parts
    const rows = await rowsOf(on, `SELECT ${replayColumns} FROM ${schema}.replays WHERE id = $1`, [id])
    return rows[0] === undefined ? null : toJob(rows[0])
  }
}

function makes(
  items: readonly Recoverable[],
  endpointId: string,
  { newIds, recover, id }: ReplayStep,
): readonly Made[] {
  const ids = newIds.values()
  return items.flatMap((item) => {
    if (item.kind === 'again') return []
    const next = ids.next()
    if (next.done === true) throw new Error(`${id} needs as many new ids as its limit`)
    const lane = laneOf(recover?.ordering ?? 'none', item.key)
    return [{ id: next.value, eventId: item.eventId, endpointId, lane }]
  })
}

function stepWrite(endpoints: EndpointTable): Write<Step, Stepped> {
  return {
    name: 'step_replay_v1',
    fits: () => 1,
    values: ([step]) => (step === undefined ? [] : stepValues(step, endpoints)),
    results: (_steps, answer) => [answer === null ? {} : JSON.parse(answer)],
  }
}

/** Those that it enters. */
function lanesOf({ requeue, make }: Step, endpoints: EndpointTable): readonly (readonly [number, string])[] {
  const entering = [...requeue.map(({ to }) => to), ...make]
  return entering.flatMap(({ endpointId, lane }) =>
    lane === null ? [] : [[endpoints.find(endpointId).no, lane] as const],
  )
}

function stepValues(step: Step, endpoints: EndpointTable): readonly unknown[] {
  const { job, doneKey, exhausted, skipped, now, requeue, make } = step
  const endpointNo = (endpointId: string) => endpoints.find(endpointId).no
  const slots = slotsOf(lanesOf(step, endpoints))
  const made = [
    keys(
      'dlv',
      make.map(({ id }) => id),
    ),
    keys(
      'evt',
      make.map(({ eventId }) => eventId),
    ),
    int4s(make.map(({ endpointId }) => endpointNo(endpointId))),
    texts(make.map(({ lane }) => lane)),
  ]
  return [
    job.replay.id,
    job.span.after,
    doneKey,
    skipped,
    exhausted,
    now,
    slots === null ? null : int4s(slots),
    ...waitValues(requeue),
    ...(make.length === 0 ? [null, null, null, null] : made),
  ]
}

type Creation = Readonly<{ replay: Replay; fromKey: string; lastKey: string }>

const createWrite: Write<Creation, null> = {
  name: 'create_replay_v1',
  fits: () => 1,
  values: ([creation]) => {
    if (creation === undefined) return []
    const { replay, fromKey, lastKey } = creation
    const { id, tenant, status, selection, rate, note, by, matched, createdAt } = replay
    return [id, tenant, status, JSON.stringify({ selection, rate, note, by }), matched, fromKey, lastKey, createdAt]
  },
  results: () => [null],
}

type StatusChange = Readonly<{ id: string; from: ReplayStatus; moved: Replay }>

const changeWrite: Write<StatusChange, null> = {
  name: 'change_replay_v1',
  fits: () => 1,
  values: ([change]) => {
    if (change === undefined) return []
    const { id, from, moved } = change
    // Settled by the database, which knows the outcomes as they are then.
    const to = moved.status === 'settled' ? 'finished' : moved.status
    return [id, from, to, moved.updatedAt, moved.endedAt]
  },
  results: () => [null],
}

export const discardWrite: Write<readonly Seen[], number> = {
  name: 'discard_v1',
  fits: () => 1,
  values: ([found = []]) => [`{${found.map(({ key }) => key).join(',')}}`, int4s(found.map(({ version }) => version))],
  results: (_items, answer) => [Number(answer ?? 0)],
}
