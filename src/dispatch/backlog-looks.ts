import type { Clock } from '../core/clock.ts'
import type { Logger } from '../log.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import type { Membership } from './membership.ts'
import type { Orphans } from './orphans.ts'

export type BacklogLooksParts = Readonly<{
  store: Pick<Store, 'backlog'>
  clock: Clock
  random: () => number
  log: Logger
  works: ReadonlyMap<string, EndpointWork>
  membership: Pick<Membership, 'isLeader' | 'isShared'>
  orphans: Pick<Orphans, 'endPending'>
  goOn: (work: EndpointWork) => void
}>

const everyMs = 30_000
/** Hints of other members may get lost. */
const sharedEveryMs = 5_000

/** The store's own answer to what is due, again and again: hints may be missed, rows are not. */
export class BacklogLooks {
  readonly #parts: BacklogLooksParts
  #timer: NodeJS.Timeout | null = null

  constructor(parts: BacklogLooksParts) {
    this.#parts = parts
  }

  /** Comes back after the first look. */
  async start(): Promise<void> {
    await this.#look()
    this.#timer = setInterval(() => this.lookSoon(), this.#everyMs).unref()
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  lookSoon(): void {
    this.#look().catch((err) => this.#parts.log.warn({ err }, 'backlog.not_read'))
  }

  async #look(): Promise<void> {
    const { store, clock, works, membership, orphans, goOn } = this.#parts
    for (const { endpointId, nextDueAt } of await store.backlog(clock.steady())) {
      const work = works.get(endpointId)
      work?.noteDue(nextDueAt)
      if (work !== undefined) goOn(work)
      else if (membership.isLeader) orphans.endPending(endpointId)
    }
  }

  /** Members do not all ask at the same moment. */
  get #everyMs(): number {
    const { membership, random } = this.#parts
    return membership.isShared ? sharedEveryMs * (0.8 + 0.2 * random()) : everyMs
  }
}
