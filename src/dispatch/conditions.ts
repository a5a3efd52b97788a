import type { BreakerState } from '../core/circuit-breaker.ts'
import type { Clock } from '../core/clock.ts'
import {
  type Condition,
  conditionProbing,
  isProbeDue,
  isWell,
  lostCondition,
  meaningfulUntil,
} from '../core/condition.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { SharedState } from '../shared-state/shared-state.ts'
import type { Store } from '../store/store.ts'
import { conditionIn, textOf } from './condition-text.ts'
import type { EndpointWork } from './endpoint-work.ts'
import { KeptConditions } from './kept-conditions.ts'

export type ConditionChange = (condition: Condition) => Condition

export type ConditionsParts = Readonly<{
  store: Store
  state: SharedState
  clock: Clock
  log: Logger
  notices: Notices
  goOn: (work: EndpointWork) => void
}>

/** What this process knows of one endpoint. Its own view is `agreed` with its `changes` in it. */
type Known = {
  readonly work: EndpointWork
  /** In the shared state, when it was last seen there; null: nothing was. */
  text: string | null
  agreed: Condition
  /** What has happened here and is not agreed yet. */
  changes: readonly ConditionChange[]
  /** It asks to start the probe. */
  asks: boolean
  /** The state of the breaker that was published last. */
  told: BreakerState
}

/** Something to agree on: the condition with these changes in it, the last of which may be that a probe starts here. */
type Proposal = Readonly<{
  known: Known
  changes: readonly ConditionChange[]
  probe: ConditionChange | null
  to: Condition
}>

const agreedAtOnce = 500
/** While the shared state is away, only so many changes are kept to be told to the others. */
const changesMax = 256
const retryEveryMs = 1_000
const refreshEveryMs = 2_000
const refreshedAtOnce = 1_000
/** Of an endpoint where nothing happens. */
const keptMs = 86_400_000

/**
 * How endpoints are doing, agreed among all processes that share the store.
 *
 *   here     a change counts at once, for this process
 *   agreed   then it is swapped into the shared state. Who was quicker wins; the others put their changes on top of that
 *   alone    while the shared state is away every process decides by itself, and probes by itself
 *
 * The one that has swapped a change of the breaker tells of it and keeps it, so that both happen once.
 */
export class Conditions {
  readonly #parts: ConditionsParts
  readonly #kept: KeptConditions
  readonly #known = new Map<EndpointWork, Known>()
  readonly #dirty = new Set<Known>()
  /** Those that others may change, the longest unread first. */
  readonly #watched = new Set<Known>()
  #agreeing: Promise<void> | null = null
  #refreshing: NodeJS.Timeout | null = null
  #awaySince: number | null = null
  #isClosed = false

  constructor(parts: ConditionsParts) {
    this.#parts = parts
    this.#kept = new KeptConditions(parts.store, parts.log)
  }

  /** Why every process decides by itself now; null: they agree. */
  get problem(): string | null {
    if (this.#awaySince === null) return null
    return `${this.#parts.state.name} does not answer: each process counts failures and probes by itself.`
  }

  /** What was kept of each endpoint. */
  load(): Promise<ReadonlyMap<string, Condition>> {
    return this.#kept.load()
  }

  /** What the others know of these is taken up, now and from then on. */
  async start(works: readonly EndpointWork[]): Promise<void> {
    for (const work of works) this.#watched.add(this.#of(work))
    for (let left = works.length; left > 0 && this.#awaySince === null; left -= refreshedAtOnce) {
      await this.#refreshWatched()
    }
    this.#refreshing = setInterval(() => void this.#refreshWatched(), refreshEveryMs).unref()
  }

  /** Something has happened to an endpoint. */
  change(work: EndpointWork, change: ConditionChange): void {
    const before = work.condition
    const after = change(before)
    if (after === before) return
    const known = this.#of(work)
    work.know(after)
    known.changes = bounded([...known.changes, change], after)
    this.#push(known)
  }

  /** A probe is due here: one process may start it. */
  askProbe(work: EndpointWork): void {
    const known = this.#of(work)
    if (known.asks) return
    work.askProbe()
    known.asks = true
    this.#push(known)
  }

  /** Others have changed these. */
  heard(works: readonly EndpointWork[]): void {
    void this.#refresh(works.map((work) => this.#of(work)))
  }

  /** The endpoint was deleted. */
  forget(work: EndpointWork): void {
    const known = this.#known.get(work)
    if (known === undefined) return
    this.#known.delete(work)
    this.#dirty.delete(known)
    this.#watched.delete(known)
  }

  /** Resolves when everything is agreed and kept, or cannot be. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#refreshing !== null) clearInterval(this.#refreshing)
    await this.#agreeing
    await this.#kept.close()
  }

  #of(work: EndpointWork): Known {
    const known = this.#known.get(work)
    if (known !== undefined) return known
    const { condition } = work
    const fresh: Known = {
      work,
      text: null,
      agreed: condition,
      changes: [],
      asks: false,
      told: condition.breaker.state,
    }
    this.#known.set(work, fresh)
    this.#watch(fresh)
    return fresh
  }

  #push(known: Known): void {
    this.#dirty.add(known)
    this.#agreeing ??= this.#agreeOnAll()
  }

  // ── Agreeing ────────────────────────────────────────────────────────────────────────────────────────────────────

  async #agreeOnAll(): Promise<void> {
    while (this.#dirty.size > 0) {
      const batch = [...this.#dirty].slice(0, agreedAtOnce)
      for (const known of batch) this.#dirty.delete(known)
      const proposals = batch.map((known) => this.#proposal(known))
      try {
        await this.#propose(proposals)
        this.#noteAnswered()
      } catch (error) {
        this.#noteAway(error)
        for (const proposal of proposals) this.#decideAlone(proposal)
        if (this.#isClosed) break
        await new Promise((resolve) => setTimeout(resolve, retryEveryMs))
      }
    }
    this.#agreeing = null
  }

  /** Takes the changes out of what is known: they come back if others were quicker. */
  #proposal(known: Known): Proposal {
    const { changes } = known
    const { endpoint } = known.work
    known.changes = []
    const now = this.#parts.clock.steady()
    const changed = withChanges(known.agreed, changes)
    const mayProbe = known.asks && isProbeDue(changed, now)
    const probe: ConditionChange | null = mayProbe ? (condition) => conditionProbing(condition, endpoint, now) : null
    return { known, changes, probe, to: probe?.(changed) ?? changed }
  }

  async #propose(proposals: readonly Proposal[]): Promise<void> {
    const { state, clock } = this.#parts
    const now = clock.steady()
    const swaps = proposals.map(({ known, to }) => ({
      key: keyOf(known.work),
      from: known.text,
      to: textOf(to),
      ttlMs: meaningfulUntil(to, now) - now + keptMs,
    }))
    const answers = await state.swap(swaps)
    const agreed: EndpointWork[] = []
    for (const [index, proposal] of proposals.entries()) {
      const { known } = proposal
      const answer = answers[index]
      if (answer?.swapped === false) {
        known.changes = [...proposal.changes, ...known.changes]
        this.#takeUp(known, answer.found)
        this.#dirty.add(known)
      } else {
        known.text = swaps[index]?.to ?? null
        if (this.#agreed(proposal)) agreed.push(known.work)
      }
    }
    if (agreed.length > 0)
      this.#parts.store.hint(
        'condition',
        agreed.map(({ endpoint }) => endpoint.id),
      )
  }

  /** Answers whether others should know at once. */
  #agreed(proposal: Proposal): boolean {
    const { known, to } = proposal
    const before = known.agreed
    known.agreed = to
    this.#see(known)
    this.#tell(known, to)
    if (!known.work.isRemoved) this.#kept.keep(before, to)
    this.#answerProbe(proposal)
    return before.breaker.state !== to.breaker.state || before.heldUntil !== to.heldUntil
  }

  /** What was proposed counts here, and is told to the others later. */
  #decideAlone(proposal: Proposal): void {
    const { known, changes, probe } = proposal
    const { work } = known
    const before = work.condition
    known.changes = [...changes, ...(probe === null ? [] : [probe]), ...known.changes]
    this.#see(known)
    known.changes = bounded(known.changes, work.condition)
    this.#tell(known, work.condition)
    if (!work.isRemoved) this.#kept.keep(before, work.condition)
    this.#answerProbe(proposal)
    if (known.changes.length > 0) this.#dirty.add(known)
  }

  /** A probe that was asked for begins, or somebody else was quicker, or there is nothing to probe any more. */
  #answerProbe({ known, probe }: Proposal): void {
    if (!known.asks) return
    known.asks = false
    known.work.answerProbe(probe !== null)
    this.#parts.goOn(known.work)
  }

  // ── What others have done ───────────────────────────────────────────────────────────────────────────────────────

  #refreshWatched(): Promise<void> {
    return this.#refresh([...this.#watched].slice(0, refreshedAtOnce))
  }

  async #refresh(some: readonly Known[]): Promise<void> {
    const seen = some.filter((known) => this.#known.has(known.work)).map((known) => ({ known, text: known.text }))
    try {
      // One more, so that it is known to answer also while nothing is watched.
      const texts = await this.#parts.state.read([...seen.map(({ known }) => keyOf(known.work)), 'any'])
      this.#noteAnswered()
      for (const [index, { known, text }] of seen.entries()) {
        const found = texts[index] ?? null
        // What has been swapped meanwhile is newer than what was read.
        if (known.text === text && found !== text) this.#takeUp(known, found)
        this.#watch(known)
      }
    } catch (error) {
      this.#noteAway(error)
    }
  }

  /** Something else is in the shared state than was seen there: what this process has changed goes on top of it. */
  #takeUp(known: Known, text: string | null): void {
    const { work, agreed } = known
    known.text = text
    known.agreed = conditionIn(text, work.endpoint.id) ?? lostCondition(agreed, this.#parts.clock.steady())
    if (text !== null) known.told = known.agreed.breaker.state
    this.#see(known)
    this.#parts.goOn(work)
  }

  #see(known: Known): void {
    known.work.know(withChanges(known.agreed, known.changes))
    this.#watch(known)
  }

  /** Nothing is read of those that are well: the next failure brings what others know. */
  #watch(known: Known): void {
    this.#watched.delete(known)
    if (this.#known.has(known.work) && !isWell(known.work.condition)) this.#watched.add(known)
  }

  #tell(known: Known, { breaker }: Condition): void {
    if (breaker.state === known.told) return
    const { log, notices } = this.#parts
    const { id: endpointId, tenant } = known.work.endpoint
    const changed = { endpointId, from: known.told, to: breaker.state }
    known.told = breaker.state
    log.warn(changed, 'breaker.changed')
    notices.publish({ kind: 'breaker.changed', tenant, ...changed })
  }

  #noteAway(err: unknown): void {
    if (this.#awaySince !== null) return
    this.#awaySince = this.#parts.clock.steady()
    this.#parts.log.warn({ err, state: this.#parts.state.name }, 'shared_state.away')
  }

  #noteAnswered(): void {
    if (this.#awaySince === null) return
    const awayMs = this.#parts.clock.steady() - this.#awaySince
    this.#awaySince = null
    for (const known of this.#known.values()) this.#watched.add(known)
    this.#parts.log.info({ state: this.#parts.state.name, awayMs }, 'shared_state.back')
  }
}

/** Beyond the limit, what this process has seen takes the place of what the others know. */
function bounded(changes: readonly ConditionChange[], seen: Condition): readonly ConditionChange[] {
  return changes.length <= changesMax ? changes : [() => seen]
}

function withChanges(condition: Condition, changes: readonly ConditionChange[]): Condition {
  return changes.reduce((changed, change) => change(changed), condition)
}

function keyOf({ endpoint }: EndpointWork): string {
  return `condition:${endpoint.id}`
}
