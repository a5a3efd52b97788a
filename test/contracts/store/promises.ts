import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { HttpEndpoint } from '../../../src/core/endpoint.ts'
import type { ClaimAnswer, ClaimRequest, Store } from '../../../src/store/store.ts'
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
  await store.putEndpoint(endpoint)
  return endpoint
}

export function claimDue(
  store: Store,
  endpoint: HttpEndpoint,
  given: Partial<ClaimRequest> = {},
): Promise<ClaimAnswer> {
  const from = { endpointId: endpoint.id }
  return store.claim({ from, now: t0 + 1, leaseEndsAt: lease, limit: 100, bytesMax: 1_000_000, ...given })
}

export function only<T>(items: readonly T[]): T {
  assert.equal(items.length, 1)
  return items[0] as T
}
