import type { BreakerState } from '../core/circuit-breaker.ts'
import { type Condition, conditionProbing, isProbeDue, lostCondition } from '../core/condition.ts'
import { conditionIn, textOf } from './condition-text.ts'
import type { EndpointWork } from './endpoint-work.ts'

export type ConditionChange = (condition: Condition) => Condition

/** Something to agree on: the condition with these changes in it, the last of which may be that a probe starts here. */
export type Proposal = Readonly<{
  known: KnownCondition
  changes: readonly ConditionChange[]
  probe: ConditionChange | null
  to: Condition
  /** What was in the shared state, and what is to be there instead. */
  fromText: string | null
  toText: string
}>

/** While the shared state is away, only so many changes are kept to be told to the others. */
const changesMax = 256

/**
 * What this process knows of one endpoint: what all have agreed on, and on top of it what has happened here since. Both
 * together are what counts here (`work.condition`).
 */
export class KnownCondition {
  readonly work: EndpointWork
  /** In the shared state, when it was last seen there; null: nothing was. */
  #text: string | null = null
  #agreed: Condition
  /** What has happened here and is not agreed yet. */
  #changes: readonly ConditionChange[] = []
  /** It asks to start the probe. */
  #asksProbe = false
  /** The state of the breaker that was published last. */
  #published: BreakerState

  constructor(work: EndpointWork) {
    this.work = work
    this.#agreed = work.condition
    this.#published = work.condition.breaker.state
  }

  get text(): string | null {
    return this.#text
  }

  /** Something has happened here, and is to be agreed on. */
  get hasChanges(): boolean {
    return this.#changes.length > 0
  }

  change(change: ConditionChange, after: Condition): void {
    this.#changes = bounded([...this.#changes, change], after)
    this.work.know(after)
  }

  /** Answers whether that is new. */
  askProbe(): boolean {
    if (this.#asksProbe) return false
    this.#asksProbe = true
    this.work.askProbe()
    return true
  }

  /** Answers whether it had asked. */
  answerProbe(isGranted: boolean): boolean {
    if (!this.#asksProbe) return false
    this.#asksProbe = false
    this.work.answerProbe(isGranted)
    return true
  }

  // ── Agreeing ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Takes the changes out: they come back if others were quicker. If this throws, they are lost. */
  propose(now: number): Proposal {
    const { endpoint } = this.work
    const changes = this.#changes
    this.#changes = []
    const changed = withChanges(this.#agreed, changes)
    const mayProbe = this.#asksProbe && isProbeDue(changed, endpoint, now)
    const probe: ConditionChange | null = mayProbe ? (condition) => conditionProbing(condition, endpoint, now) : null
    const to = probe?.(changed) ?? changed
    return { known: this, changes, probe, to, fromText: this.#text, toText: textOf(to) }
  }

  /** It is agreed; answers what was agreed before. */
  agree({ to, toText }: Proposal): Condition {
    const before = this.#agreed
    this.#agreed = to
    this.#text = toText
    this.#see()
    return before
  }

  /** Others were quicker: what has happened here goes on top of what they have agreed on. */
  agreeLater({ changes }: Proposal, found: string | null, now: number): void {
    this.#changes = [...changes, ...this.#changes]
    this.adopt(found, now)
  }

  /** It counts here, and the others are told later; answers what counted here before. */
  decideAlone({ changes, probe }: Proposal): Condition {
    const before = this.work.condition
    this.#changes = [...changes, ...(probe === null ? [] : [probe]), ...this.#changes]
    this.#see()
    this.#changes = bounded(this.#changes, this.work.condition)
    return before
  }

  /** Something else is in the shared state than was seen there. */
  adopt(text: string | null, now: number): void {
    this.#text = text
    this.#agreed = conditionIn(text, this.work.endpoint.id) ?? lostCondition(this.#agreed, now)
    if (text !== null) this.#published = this.#agreed.breaker.state
    this.#see()
  }

  /** What could not even be proposed is dropped: what all have agreed on counts. */
  dropChanges(): void {
    this.#changes = []
    this.#see()
    this.answerProbe(false)
  }

  /** How its breaker has changed since that was published last; null: it has not. By now it is published. */
  news({ breaker: { state } }: Condition): Readonly<{ from: BreakerState; to: BreakerState }> | null {
    const from = this.#published
    if (state === from) return null
    this.#published = state
    return { from, to: state }
  }

  #see(): void {
    this.work.know(withChanges(this.#agreed, this.#changes))
  }
}

/** Beyond the limit, what this process has seen takes the place of what the others know. */
function bounded(changes: readonly ConditionChange[], seen: Condition): readonly ConditionChange[] {
  return changes.length <= changesMax ? changes : [() => seen]
}

function withChanges(condition: Condition, changes: readonly ConditionChange[]): Condition {
  return changes.reduce((changed, change) => change(changed), condition)
}
