import type { Attempt } from '../core/attempt.ts'
import { Ages, type Clock } from '../core/clock.ts'
import { conditionAfter, isFailingTooLong } from '../core/condition.ts'
import type { Pending, Processing, Settled } from '../core/delivery.ts'
import { formatDuration } from '../core/duration.ts'
import { mayBeDisabled } from '../core/endpoint-kinds.ts'
import { afterAttempt, givenUp, handedBack } from '../core/lifecycle.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Claim } from '../store/pipeline-store.ts'
import type { AttemptMade } from './attempt.ts'
import type { Catalogue } from './catalogue.ts'
import type { Conditions } from './conditions.ts'
import type { EndpointWork, Underway } from './endpoint-work.ts'

export type DecisionParts = Readonly<{
  catalogue: Catalogue
  clock: Clock
  random: () => number
  log: Logger
  notices: Notices
  conditions: Conditions
}>

/** What is to be written of an attempt. */
export type Decision = Readonly<{
  to: Pending | Settled
  attempt: Attempt | null
  /** Why the endpoint is to be disabled once that is on disk; null: it is not. */
  whyDisabled: string | null
}>

/** An attempt that has come back, and what is to be written of it. */
export type Returned = Readonly<{ claim: Claim; made: AttemptMade; decision: Decision; now: number }>

/** What an attempt means for its delivery, and for all of its endpoint. */
export class Decisions {
  readonly #parts: DecisionParts
  readonly #ages: Ages

  constructor(parts: DecisionParts) {
    this.#parts = parts
    this.#ages = new Ages(parts.clock)
  }

  /** Decides on one attempt; the endpoint's condition is changed by it. */
  decide(
    work: EndpointWork,
    claim: Claim,
    made: AttemptMade,
    { startedAt, probe }: Pick<Underway, 'startedAt' | 'probe'>,
  ): Returned {
    const { outcome, attempt } = made
    const now = this.#parts.clock.steady()
    const result = { outcome, statusCode: attempt.statusCode, startedAt, probe }
    const { endpoint } = work
    this.#parts.conditions.change(work, (condition) => conditionAfter(condition, result, endpoint, now))
    const to = this.#deliveryAfter(work, claim.delivery, made, probe)
    const whyDisabled = this.#whyDisable(work, made)
    // From now on and not only when it is written: what would be tried meanwhile would be lost in the same way.
    if (whyDisabled !== null) work.stand({ leaving: true })
    const decision = { to, attempt: outcome.kind === 'ours' ? null : attempt, whyDisabled }
    return { claim, made, decision, now }
  }

  async disable(work: EndpointWork, statusReason: string): Promise<void> {
    const { catalogue, clock, log } = this.#parts
    const { id } = work.endpoint
    log.warn({ endpointId: id, statusReason }, 'endpoint.disabled')
    try {
      await catalogue.update(id, (endpoint) => ({
        ...endpoint,
        status: 'disabled',
        statusReason,
        updatedAt: clock.wall(),
      }))
    } catch (err) {
      log.error({ err, endpointId: id }, 'endpoint.not_disabled')
    }
    work.stand({ leaving: false })
  }

  #deliveryAfter(
    { endpoint, isRemoved }: EndpointWork,
    delivery: Processing,
    { report, outcome }: AttemptMade,
    probe: boolean,
  ): Pending | Settled {
    const { clock, random } = this.#parts
    const now = clock.steady()
    if (report.kind === 'interrupted') return handedBack(delivery, now)
    const rules = { policy: endpoint.retry, random: random(), now, ages: this.#ages.look(), probe }
    const to = afterAttempt(delivery, outcome, rules)
    return to.status === 'pending' && isRemoved ? givenUp(to, 'endpoint_deleted', now) : to
  }

  /** 410: the receiver says that it is gone for good. And who fails for days is not going to come back by itself. */
  #whyDisable(work: EndpointWork, { outcome }: AttemptMade): string | null {
    const { clock } = this.#parts
    const { endpoint, isLeaving } = work
    if (isLeaving && outcome.kind !== 'delivered') return null
    work.noteOutcome(outcome.kind, clock.steady())
    if (outcome.kind === 'delivered' || outcome.kind === 'ours') return null
    if (!mayBeDisabled(endpoint)) return null
    if (outcome.kind === 'permanent' && outcome.reason === 'gone') return 'it answered 410 Gone'
    if (!isFailingTooLong(endpoint, work.condition, work.failuresSeenFrom, clock)) return null
    return `nothing but failures for ${formatDuration(endpoint.disableAfterMs ?? 0)}`
  }
}
