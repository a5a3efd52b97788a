import type { Attempt } from '../core/attempt.ts'
import { probeStarted, reset } from '../core/circuit-breaker.ts'
import { Ages, type Clock } from '../core/clock.ts'
import type { Pending, Processing, Settled } from '../core/delivery.ts'
import { formatDuration } from '../core/duration.ts'
import { mayBeDisabled } from '../core/endpoint-kinds.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'
import type { Tried } from './attempt.ts'
import type { Catalogue } from './catalogue.ts'
import type { Conditions } from './conditions.ts'
import { conditionAfter, deliveryAfter, isFailingTooLong } from './decide.ts'
import type { EndpointWork } from './endpoint-work.ts'

export type VerdictParts = Readonly<{
  catalogue: Catalogue
  clock: Clock
  random: () => number
  log: Logger
  notices: Notices
  conditions: Conditions
}>

/** What is to be written of a try. */
export type Verdict = Readonly<{
  to: Pending | Settled
  attempt: Attempt | null
  /** Why the endpoint is to be disabled once that is on disk; null: it is not. */
  whyDisabled: string | null
}>

/** What a try means for its delivery, and for all of its endpoint. */
export class Verdicts {
  readonly #parts: VerdictParts
  readonly #ages: Ages

  constructor(parts: VerdictParts) {
    this.#parts = parts
    this.#ages = new Ages(parts.clock)
  }

  /** Decides on one try; the endpoint's condition is changed by it. */
  on(
    work: EndpointWork,
    delivery: Processing,
    tried: Tried,
    { startedAt, probe }: Readonly<{ startedAt: number; probe: boolean }>,
  ): Verdict {
    const { clock, random } = this.#parts
    const { endpoint, removed } = work
    const now = clock.steady()
    const ages = this.#ages.look()
    this.#setCondition(work, conditionAfter(work.condition, tried, { endpoint, startedAt, probe, now }))
    const to = deliveryAfter(delivery, tried, { endpoint, removed, probe, random: random(), now, ages })
    const whyDisabled = this.#whyDisable(work, tried)
    // From now on and not only when it is written: what would be tried meanwhile would be lost in the same way.
    if (whyDisabled !== null) work.leaving = true
    return { to, attempt: tried.outcome.kind === 'ours' ? null : tried.attempt, whyDisabled }
  }

  probeStarted(work: EndpointWork): void {
    const breaker = probeStarted(work.breaker, this.#parts.clock.steady())
    this.#setCondition(work, { ...work.condition, breaker })
  }

  /** A person says that the endpoint is well again. */
  resetBreaker(work: EndpointWork): void {
    this.#setCondition(work, { ...work.condition, breaker: reset(work.breaker), heldUntil: null })
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
    work.leaving = false
  }

  /** 410: the receiver says that it is gone for good. And who fails for days is not going to come back by itself. */
  #whyDisable(work: EndpointWork, { outcome }: Tried): string | null {
    if (outcome.kind === 'delivered') work.failuresSeenFrom = null
    if (outcome.kind === 'delivered' || outcome.kind === 'ours' || work.leaving) return null
    work.failuresSeenFrom ??= this.#parts.clock.steady()
    const { endpoint } = work
    if (!mayBeDisabled(endpoint)) return null
    if (outcome.kind === 'permanent' && outcome.reason === 'gone') return 'it answered 410 Gone'
    if (!isFailingTooLong(work, this.#parts.clock)) return null
    return `nothing but failures for ${formatDuration(endpoint.disableAfterMs ?? 0)}`
  }

  #setCondition(work: EndpointWork, condition: EndpointWork['condition']): void {
    if (condition === work.condition) return
    const before = work.condition
    work.condition = condition
    if (before.breaker.state !== condition.breaker.state) {
      const { log, notices } = this.#parts
      const changed = { endpointId: work.endpoint.id, from: before.breaker.state, to: condition.breaker.state }
      log.warn(changed, 'breaker.changed')
      notices.publish({ kind: 'breaker.changed', tenant: work.endpoint.tenant, ...changed })
    }
    if (!work.removed) this.#parts.conditions.note(before, condition)
  }
}
