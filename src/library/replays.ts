import type { z } from 'zod'
import type { Pipeline } from '../app.ts'
import type { DeliveryStatus, StatusClass } from '../core/delivery.ts'
import { PosthornError } from '../core/errors.ts'
import type { Reason } from '../core/outcome.ts'
import type { Replay, ReplayVerb } from '../core/replay.ts'
import type { ReplayPreview } from '../dispatch/replays.ts'
import { deliveryShown } from '../server/delivery-detail.ts'
import { filterOf, replayFilter } from '../server/filter-schema.ts'
import { replayAnswer, replayShown } from '../server/replay-answers.ts'
import { replayFields } from '../server/replay-schema.ts'
import { closedObject } from '../server/schemas.ts'
import { Scope } from '../server/scope.ts'
import { asTexts, notFound, readGiven } from './reading.ts'
import type { ShownDelivery } from './records.ts'

/** A replay as the API shows it. */
export type ShownReplay = z.output<typeof replayAnswer>

/** What a replay would requeue, and the endpoints of it that take nothing now. */
export type ShownPreview = ReplayPreview<ShownDelivery>

/** Which dead letters; `delivered` ones only when their status is named. */
export type ReplayFilterOptions = Readonly<{
  endpoint?: string
  event?: string
  /** The replay that requeued them last. */
  replay?: string
  status?: DeliveryStatus | readonly DeliveryStatus[]
  statusClass?: StatusClass | readonly StatusClass[]
  key?: string
  type?: string
  tenant?: string
  reason?: Reason
  error?: string
  from?: Date | string
  to?: Date | string
  ids?: readonly string[]
}>

export type ReplayOptions = Readonly<{
  filter: ReplayFilterOptions
  /** Deliveries a second; by default only so fast that others do not notice. */
  rate?: number | null
  note?: string
}>

const creation = closedObject({ filter: replayFilter, ...replayFields })
const everything = new Scope({ tenant: null })

/** Jobs that bring dead letters back. They go on after a restart. */
export class Replays {
  readonly #pipeline: Pipeline

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline
  }

  /** How many would be requeued, and a few of them; nothing is done. */
  async preview(filter: ReplayFilterOptions): Promise<ShownPreview> {
    const { selection, tenant } = this.#read({ filter })
    const { sample, ...others } = await this.#pipeline.replays.preview({ selection, tenant })
    return { ...others, sample: sample.map(deliveryShown(this.#pipeline)) }
  }

  async create(options: ReplayOptions): Promise<ShownReplay> {
    return shown(await this.#pipeline.replays.create({ ...this.#read(options), by: 'library' }))
  }

  async get(id: string): Promise<ShownReplay | null> {
    const replay = await this.#pipeline.store.getReplay(id)
    return replay === null ? null : shown(replay)
  }

  pause(id: string): Promise<ShownReplay> {
    return this.#change(id, 'pause')
  }

  resume(id: string): Promise<ShownReplay> {
    return this.#change(id, 'resume')
  }

  cancel(id: string): Promise<ShownReplay> {
    return this.#change(id, 'cancel')
  }

  #read(options: ReplayOptions) {
    const given = { ...options, filter: asTexts(options.filter) }
    const { filter: asked, rate, note } = readGiven(creation, given, 'This replay')
    const filter = filterOf(asked, everything)
    return { selection: { kind: 'deliveries', filter } as const, tenant: filter.tenant ?? null, rate, note }
  }

  async #change(id: string, verb: ReplayVerb): Promise<ShownReplay> {
    const change = await this.#pipeline.replays.change(id, verb)
    switch (change.kind) {
      case 'changed':
        return shown(change.replay)
      case 'not_found':
        throw notFound('replay', id)
      case 'refused':
        throw new PosthornError('conflict', `The replay ${id} is ${change.replay.status}; it cannot ${verb} now.`)
    }
  }
}

function shown(replay: Replay): ShownReplay {
  return replayAnswer.parse(replayShown(replay))
}
