import type { Clock } from '../core/clock.ts'
import { type Condition, isWell, meaningfulUntil } from '../core/condition.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { SharedState, Swap, SwapAnswer } from '../shared-state/shared-state.ts'
import { rest } from '../store/pace.ts'
import type { Store } from '../store/store.ts'
import type { EndpointWork } from './endpoint-work.ts'
import { KeptConditions } from './kept-conditions.ts'
import { type ConditionChange, KnownCondition, type Proposal } from './known-condition.ts'

export type ConditionsParts = Readonly<{
  store: Store
  state: SharedState
  clock: Clock
  log: Logger
  notices: Notices
  goOn: (work: EndpointWork) => void
}>

const agreedAtOnce = 500
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
  readonly #known = new Map<EndpointWork, KnownCondition>()
  readonly #dirty = new Set<KnownCondition>()
  /** Those that others may change, the longest unread first. */
  readonly #watched = new Set<KnownCondition>()
  #agreeing: Promise<void> | null = null
  #refreshing: NodeJS.Timeout | null = null
  #awaySince: number | null = null
  readonly #closing = new AbortController()

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
    this.#refreshing = setInterval(() => this.#refreshWatched().catch(this.#noteDefect), refreshEveryMs).unref()
  }

  /** Something has happened to an endpoint. */
  change(work: EndpointWork, change: ConditionChange): void {
    const before = work.condition
    const after = change(before)
    if (after === before) return
    // An attempt may end after its endpoint was deleted: nobody has to know any more.
    if (work.isRemoved) {
      work.know(after)
      return
    }
    const known = this.#of(work)
    known.change(change, after)
    this.#push(known)
  }

  /** A probe is due here: one process may start it. */
  askProbe(work: EndpointWork): void {
    const known = this.#of(work)
    if (known.askProbe()) this.#push(known)
  }

  /** Others have changed these. */
  heard(works: readonly EndpointWork[]): void {
    this.#refresh(works.map((work) => this.#of(work))).catch(this.#noteDefect)
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
    this.#closing.abort()
    if (this.#refreshing !== null) clearInterval(this.#refreshing)
    await this.#agreeing
    await this.#kept.close()
  }

  #of(work: EndpointWork): KnownCondition {
    const known = this.#known.get(work)
    if (known !== undefined) return known
    const fresh = new KnownCondition(work)
    this.#known.set(work, fresh)
    this.#watch(fresh)
    return fresh
  }

  /** Nobody agrees on an endpoint that is gone. */
  #push(known: KnownCondition): void {
    if (!this.#known.has(known.work)) return
    this.#dirty.add(known)
    this.#agreeing ??= this.#agreeOnAll()
  }

  // ── Agreeing ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Never rejects: it is awaited only when this closes. */
  async #agreeOnAll(): Promise<void> {
    let goesOn = true
    while (goesOn && this.#dirty.size > 0) {
      const batch = [...this.#dirty].slice(0, agreedAtOnce)
      for (const known of batch) this.#dirty.delete(known)
      try {
        goesOn = await this.#agreeOn(batch.flatMap((known) => this.#proposal(known) ?? []))
      } catch (err) {
        this.#noteDefect(err)
      }
    }
    this.#agreeing = null
  }

  /** null: it cannot be proposed, and must not keep the others from being agreed on. */
  #proposal(known: KnownCondition): Proposal | null {
    try {
      return known.propose(this.#parts.clock.steady())
    } catch (err) {
      this.#parts.log.error({ err, endpointId: known.work.endpoint.id }, 'condition.cannot_be_proposed')
      known.dropChanges()
      return null
    }
  }

  /** Answers whether it is worth going on: not if this closes and nobody answers. */
  async #agreeOn(proposals: readonly Proposal[]): Promise<boolean> {
    let answers: readonly SwapAnswer[]
    try {
      answers = await this.#parts.state.swap(this.#swaps(proposals))
    } catch (error) {
      const isLast = this.#closing.signal.aborted
      this.#noteAway(error)
      for (const proposal of proposals) this.#decideAlone(proposal)
      await rest(retryEveryMs, this.#closing.signal)
      return !isLast
    }
    this.#noteAnswered()
    const urgent = proposals.filter((proposal, index) => this.#answered(proposal, answers[index]))
    const endpointIds = urgent.map(({ known }) => known.work.endpoint.id)
    if (endpointIds.length > 0) this.#parts.store.hint('condition', endpointIds)
    return true
  }

  #swaps(proposals: readonly Proposal[]): readonly Swap[] {
    const now = this.#parts.clock.steady()
    return proposals.map(({ known, to, fromText, toText }) => ({
      key: keyOf(known.work),
      from: fromText,
      to: toText,
      ttlMs: meaningfulUntil(to, now) - now + keptMs,
    }))
  }

  /** Answers whether others should know at once. */
  #answered(proposal: Proposal, answer: SwapAnswer | undefined): boolean {
    const { known, to } = proposal
    if (answer?.swapped === false) {
      known.agreeLater(proposal, answer.found, this.#parts.clock.steady())
      this.#watch(known)
      this.#parts.goOn(known.work)
      this.#push(known)
      return false
    }
    const before = known.agree(proposal)
    this.#settled(proposal, before, to)
    return before.breaker.state !== to.breaker.state || before.heldUntil !== to.heldUntil
  }

  /** What was proposed counts here, and is told to the others later. */
  #decideAlone(proposal: Proposal): void {
    const { known } = proposal
    const before = known.decideAlone(proposal)
    this.#settled(proposal, before, known.work.condition)
    if (known.hasChanges) this.#push(known)
  }

  /** It is published and kept; and a probe that was asked for begins, unless another member has it or none is due. */
  #settled({ known, probe }: Proposal, before: Condition, after: Condition): void {
    this.#watch(known)
    this.#publish(known, after)
    if (!known.work.isRemoved) this.#kept.keep(before, after)
    if (known.answerProbe(probe !== null)) this.#parts.goOn(known.work)
  }

  // ── What others have done ───────────────────────────────────────────────────────────────────────────────────────

  #refreshWatched(): Promise<void> {
    return this.#refresh([...this.#watched].slice(0, refreshedAtOnce))
  }

  async #refresh(some: readonly KnownCondition[]): Promise<void> {
    const seen = some.filter((known) => this.#known.has(known.work)).map((known) => ({ known, text: known.text }))
    let texts: readonly (string | null)[]
    try {
      // One more, so that it is known to answer also while nothing is watched.
      texts = await this.#parts.state.read([...seen.map(({ known }) => keyOf(known.work)), 'any'])
    } catch (error) {
      this.#noteAway(error)
      return
    }
    this.#noteAnswered()
    for (const [index, { known, text }] of seen.entries()) {
      const found = texts[index] ?? null
      // What has been swapped meanwhile is newer than what was read.
      const isNew = known.text === text && found !== text
      if (isNew) known.adopt(found, this.#parts.clock.steady())
      this.#watch(known)
      if (isNew) this.#parts.goOn(known.work)
    }
  }

  /** Nothing is read of those that are well: the next failure brings what others know. */
  #watch(known: KnownCondition): void {
    this.#watched.delete(known)
    if (this.#known.has(known.work) && !isWell(known.work.condition)) this.#watched.add(known)
  }

  #publish(known: KnownCondition, condition: Condition): void {
    const news = known.news(condition)
    if (news === null) return
    const { log, notices } = this.#parts
    const { id: endpointId, tenant } = known.work.endpoint
    log.warn({ endpointId, ...news }, 'breaker.changed')
    notices.publish({ kind: 'breaker.changed', tenant, endpointId, ...news })
  }

  readonly #noteDefect = (err: unknown): void => this.#parts.log.error({ err }, 'conditions.defect')

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

function keyOf({ endpoint }: EndpointWork): string {
  return `condition:${endpoint.id}`
}
