import { Counter, type Registry } from 'prom-client'
import type { Notice } from '../core/notice.ts'
import { isUnwanted, type OutcomeKind, outcomeKinds, type Reason } from '../core/outcome.ts'

/** The series of what has none of its own. */
export const others = 'other'

export type CountedEndpoint = Readonly<{ id: string; tenant: string }>

type Counts = { readonly tenant: string; readonly endpoint: string; readonly attempts: Tries; deadLetters: number }
type Tries = Record<OutcomeKind, number>

/**
 * Counts tries and dead letters by endpoint, for at most `max` endpoints; all others are counted together. While there
 * are no more endpoints than that, each has a place. Beyond, a place goes to the next one that fails. Whoever has a place
 * keeps it until the endpoint is deleted, so that no series comes back with a smaller value.
 */
export class EndpointCounts {
  readonly #max: number
  readonly #placed = new Map<string, Counts>()
  readonly #rest = counts(others, others)
  #crowded = true

  constructor(max: number) {
    this.#max = max
  }

  count(notice: Notice): void {
    switch (notice.kind) {
      case 'attempt.settled': {
        const { outcome } = notice
        const found = this.#of(notice, outcome !== 'delivered' && outcome !== 'ours')
        found.attempts[outcome] += 1
        if (notice.reason !== null) this.#addDead(found, notice.reason, 1)
        return
      }
      case 'delivery.ended':
        this.#addDead(this.#of(notice, isUnwanted(notice.reason)), notice.reason, 1)
        return
      case 'event.accepted':
      case 'breaker.changed':
      case 'endpoint.changed':
      case 'lane.stuck':
      case 'replay.changed':
      case 'relay.changed':
        return
    }
  }

  /** What is counted of each place and of the rest, after the deleted ones are gone and the new ones have places. */
  read(endpoints: readonly CountedEndpoint[]): readonly Counts[] {
    const known = new Set(endpoints.map(({ id }) => id))
    for (const id of this.#placed.keys()) if (!known.has(id)) this.#placed.delete(id)
    this.#crowded = endpoints.length > this.#max
    if (!this.#crowded) for (const { id, tenant } of endpoints) this.#place(id, tenant)
    return [...this.#placed.values(), this.#rest]
  }

  #of({ endpointId, tenant }: Readonly<{ endpointId: string; tenant: string }>, fails: boolean): Counts {
    const found = this.#placed.get(endpointId)
    if (found !== undefined) return found
    return fails || !this.#crowded ? this.#place(endpointId, tenant) : this.#rest
  }

  #place(endpointId: string, tenant: string): Counts {
    const found = this.#placed.get(endpointId)
    if (found !== undefined) return found
    if (this.#placed.size >= this.#max) return this.#rest
    const placed = counts(tenant, endpointId)
    this.#placed.set(endpointId, placed)
    return placed
  }

  #addDead(found: Counts, reason: Reason, count: number): void {
    if (isUnwanted(reason)) found.deadLetters += count
  }
}

function counts(tenant: string, endpoint: string): Counts {
  return {
    tenant,
    endpoint,
    attempts: { delivered: 0, permanent: 0, retryable: 0, unavailable: 0, ours: 0 },
    deadLetters: 0,
  }
}

export function watchEndpointCounts(
  register: Registry,
  found: EndpointCounts,
  endpoints: () => readonly CountedEndpoint[],
): void {
  found.read(endpoints())
  new Counter({
    name: 'posthorn_endpoint_attempts_total',
    help: 'Tries, by endpoint and by what they meant.',
    labelNames: ['tenant', 'endpoint', 'outcome'],
    registers: [register],
    collect() {
      this.reset()
      for (const { tenant, endpoint, attempts } of found.read(endpoints())) {
        for (const outcome of outcomeKinds) this.inc({ tenant, endpoint, outcome }, attempts[outcome])
      }
    },
  })
  new Counter({
    name: 'posthorn_endpoint_dead_letters_total',
    help: 'Deliveries that became dead letters, by endpoint, but for those that a person ended.',
    labelNames: ['tenant', 'endpoint'],
    registers: [register],
    collect() {
      this.reset()
      for (const { tenant, endpoint, deadLetters } of found.read(endpoints())) {
        this.inc({ tenant, endpoint }, deadLetters)
      }
    },
  })
}
