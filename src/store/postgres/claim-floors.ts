type Floor = Readonly<{ readyAt: number; ownedAt: number; untilMs: number }>

/** A claim below every floor sees all there is. */
const none = { readyAt: Number.MIN_SAFE_INTEGER, ownedAt: Number.MIN_SAFE_INTEGER } as const
const lookBelowEveryMs = 30_000
/** What arrives may have become due a moment ago, by another member's clock. */
const slackMs = 5_000

/**
 * From where on claims read the index of an endpoint. While somebody holds a snapshot, whatever has passed stays there, and
 * every claim would go through all of it. So one that had to read much says where the next begins, and what became due
 * below waits for the next look below: at most half a minute. While no claim reads much, there are no floors.
 */
export class ClaimFloors {
  readonly #floors = new Map<number, Floor>()
  readonly #monotonicMs: () => number

  constructor(monotonicMs: () => number = () => performance.now()) {
    this.#monotonicMs = monotonicMs
  }

  at(endpointNo: number): Readonly<{ readyAt: number; ownedAt: number }> {
    const floor = this.#floors.get(endpointNo)
    if (floor === undefined) return none
    if (this.#monotonicMs() < floor.untilMs) return floor
    this.#floors.delete(endpointNo)
    return none
  }

  /** A claim read much before it came to these. */
  raise(endpointNo: number, readyFrom: number, ownedFrom: number): void {
    const untilMs = this.#floors.get(endpointNo)?.untilMs ?? this.#monotonicMs() + lookBelowEveryMs
    this.#floors.set(endpointNo, { readyAt: readyFrom - slackMs, ownedAt: ownedFrom - slackMs, untilMs })
  }

  /** Something may have become due below. */
  forget(endpointNo: number): void {
    this.#floors.delete(endpointNo)
  }
}
