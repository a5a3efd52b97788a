import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { DeliveryStatus, Failed, Settled } from '../../../src/core/delivery.ts'
import type { Endpoint, HttpEndpoint } from '../../../src/core/endpoint.ts'
import type { Change, Claim, ClaimAnswer, ClaimRequest } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anEndpoint, t0 } from '../../support/builders.ts'

/** A store to test, and how to open what it keeps once more, as a new owner would after a crash or a stop. */
export type StoreUnderTest = Readonly<{ store: Store; reopen(): Promise<Store>; destroy(): Promise<void> }>

export type OpenStore = () => Promise<StoreUnderTest>
export type Promised = (sentence: string, check: (store: Store, under: StoreUnderTest) => Promise<void>) => void

/** One promise, one test, one fresh store. */
export function promises(open: OpenStore): Promised {
  return (sentence, check) => {
    it(sentence, async () => {
      const under = await open()
      try {
        await check(under.store, under)
      } finally {
        await under.destroy()
      }
    })
  }
}

export const lease = t0 + 60_000

export async function withEndpoint(store: Store, given: Partial<HttpEndpoint> = {}): Promise<HttpEndpoint> {
  const endpoint = anEndpoint(given)
  await store.putEntry('endpoint', endpoint, 0)
  return endpoint
}

export function claimDue(store: Store, endpoint: Endpoint, given: Partial<ClaimRequest> = {}): Promise<ClaimAnswer> {
  const from = { endpointId: endpoint.id }
  return store.claim({ from, now: t0 + 1, leaseEndsAt: lease, limit: 100, bytesMax: 1_000_000, ...given })
}

/** How a delivery that is in hand ends: as a dead letter, unless something else is given. */
export function ended({ delivery }: Claim, given: Partial<Failed> & { status?: Settled['status'] } = {}): Change {
  const { leaseEndsAt: _, ...facts } = delivery
  const end = { reason: 'exhausted', settledAt: t0 + 10, deliveredAt: t0 + 10, lastError: 'HTTP 503', ...given }
  const to = { ...facts, attempts: facts.attempts + 1, version: facts.version + 1, status: 'failed', ...end }
  return { to: to as Settled, attempt: null, claimNext: null }
}

/** Ends all that is due at an endpoint, and then what that brings up in its lanes. */
export async function endAll(
  store: Store,
  endpoint: Endpoint,
  end: (claim: Claim) => Change = (claim) => ended(claim),
): Promise<readonly Claim[]> {
  const seen: Claim[] = []
  for (;;) {
    const { claims } = await claimDue(store, endpoint, { now: t0 + 1e9, leaseEndsAt: t0 + 2e9 })
    if (claims.length === 0) return seen
    await store.commit(claims.map(end))
    seen.push(...claims)
  }
}

export async function statusOf(store: Store, deliveryId: string): Promise<DeliveryStatus | null> {
  return (await store.getDelivery(deliveryId))?.delivery.status ?? null
}

export function only<T>(items: readonly T[]): T {
  assert.equal(items.length, 1)
  return items[0] as T
}
