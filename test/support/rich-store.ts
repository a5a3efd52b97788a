// A store with something of everything, and all that can be read of a store.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { closedBreaker } from '../../src/core/circuit-breaker.ts'
import type { Settled } from '../../src/core/delivery.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { Reason } from '../../src/core/outcome.ts'
import type { Claim } from '../../src/store/pipeline-store.ts'
import type { Page } from '../../src/store/record-store.ts'
import type { Store } from '../../src/store/store.ts'
import { aHandler, anArrival, anEndpoint, anEvent, anId, aReplay, aSource, delivered, retryAt, t0 } from './builders.ts'

const manyEvents = 1_100
const largeBodies = 12
const largeBytes = 700_000
const allOfIt = { bytesMax: Number.MAX_SAFE_INTEGER, leaseEndsAt: t0 + 60_000, now: t0 + 1 }

export type Rich = Readonly<{
  endpoints: readonly Endpoint[]
  ordered: Endpoint
  recovered: Endpoint
  removed: Endpoint
}>

export async function fillRichly(store: Store): Promise<Rich> {
  const ordered = anEndpoint({ ordering: 'key', headers: { authorization: 'Bearer secret' } })
  const plain = anEndpoint({ tenant: 'acme' })
  const recovered = anEndpoint({ types: ['late.*'] })
  const removed = anEndpoint()
  const handler = aHandler({ tenant: 'acme' })
  const endpoints = [ordered, plain, recovered, removed, handler]
  for (const endpoint of endpoints) await store.putEntry('endpoint', endpoint, 0)
  await store.putEntry('endpoint', { ...plain, description: 'changed' }, 1)
  await putOthers(store)
  await store.append(
    Array.from({ length: manyEvents }, (_, at) => anArrival(plain, { event: { receivedAt: t0 + at } })),
  )
  await fillLanes(store, ordered)
  await fillDead(store, plain)
  await fillLarge(store, recovered)
  await store.append([anArrival(removed), anArrival(removed)])
  await store.removeEntry('endpoint', removed.id)
  await beginReplays(store, plain, recovered)
  await store.putConditions([
    { ...condition(plain), breaker: { ...closedBreaker, failures: 3 }, lastError: 'HTTP\u0000 503', lastErrorAt: t0 },
    { ...condition(ordered), heldUntil: t0 + 5_000, failingSince: t0 },
  ])
  // In hand when the process ends.
  await claim(store, plain, 7)
  return { endpoints, ordered, recovered, removed }
}

function condition({ id }: Endpoint) {
  return {
    endpointId: id,
    breaker: closedBreaker,
    heldUntil: null,
    failingSince: null,
    lastError: null,
    lastErrorAt: null,
  }
}

async function putOthers(store: Store): Promise<void> {
  await store.putEntry('source', aSource({ name: 'github' }), 0)
  await store.putEntry('relay', { id: anId('rly'), name: 'home', tenant: 'acme', hash: 'ab', createdAt: t0 }, 0)
  await store.putEntry('key', { id: anId('key'), name: 'ci', role: 'send', tenant: null, hash: 'cd', createdAt: t0 }, 0)
  const request = { source: 'github', method: 'POST', query: 'a=b', headers: { 'x-a': 'nul \u0000' } }
  const event = anEvent({ headers: { 'x-trace': 'é' }, key: 'k', dataOffset: 1, request, type: 'late.first' })
  const idempotency = { scope: 'default', key: 'order-1', fingerprint: 'f', expiresAt: t0 + 86_400_000 }
  await store.append([{ event, idempotency, origin: { scope: 'outbox', id: '17' }, deliveries: [] }])
}

/** Lanes with what waits behind their heads, one head that was tried, and one delivery that was sent to the tail. */
async function fillLanes(store: Store, ordered: Endpoint): Promise<void> {
  const lanes = ['key:a', 'key:b', 'key:c']
  const arrivals = Array.from({ length: 12 }, (_, at) =>
    anArrival(ordered, { event: { key: lanes[at % 3]!.slice(4) }, delivery: { lane: lanes[at % 3]! } }),
  )
  await store.append(arrivals)
  const [first, second] = await claim(store, ordered, 2)
  const failure = attempt({ error: 'reset\u0000', stack: 'at\u0000x' })
  const to = { ...retryAt(first!.delivery, t0 + 9_000), lastError: 'reset\u0000', lastAttemptAt: t0 + 1 }
  await store.commit([{ to, attempt: failure, claimNext: null }, dead(second!, 'exhausted')])
  await store.createReplay(aReplay({ kind: 'deliveries', filter: { endpointId: ordered.id } }, { id: anId('rpl') }))
  await runReplays(store, 100)
}

async function fillDead(store: Store, plain: Endpoint): Promise<void> {
  const claims = await claim(store, plain, 60)
  await store.commit(
    claims.slice(0, 20).map((one) => ({ ...delivered(one), attempt: attempt({ outcome: 'delivered' }) })),
  )
  await store.commit(claims.slice(20, 50).map((one, at) => dead(one, at % 2 === 0 ? 'exhausted' : 'permanent_status')))
  await store.commit(
    claims
      .slice(50)
      .map((one, at) => ({ to: retryAt(one.delivery, t0 + 10_000 + at), attempt: null, claimNext: null })),
  )
  await store.expire({ endpointId: plain.id, bornBefore: t0 + 70, now: t0 + 80, limit: 5, after: null })
}

async function fillLarge(store: Store, endpoint: Endpoint): Promise<void> {
  for (let at = 0; at < largeBodies; at++) {
    const body = Buffer.alloc(largeBytes, at)
    const arrival = anArrival(endpoint, {
      event: { body, type: 'late.large', contentType: 'application/octet-stream' },
    })
    // Half of them have to be made by a recovery.
    await store.append([at % 2 === 0 ? arrival : { ...arrival, deliveries: [] }])
  }
}

/** One is half done, one is paused, one is cancelled, and a recovery has begun. */
async function beginReplays(store: Store, plain: Endpoint, recovered: Endpoint): Promise<void> {
  const filter = { endpointId: plain.id, reason: 'exhausted' as Reason }
  const half = await store.createReplay(aReplay({ kind: 'deliveries', filter }, { note: 'half', rate: 5 }))
  await store.stepReplay({ id: half.id, limit: 4, now: t0 + 200, recover: null, newIds: [] })
  const paused = await store.createReplay(aReplay({ kind: 'deliveries', filter: { tenant: 'default' } }))
  await store.changeReplay(paused.id, 'running', 'paused', t0 + 201)
  const cancelled = await store.createReplay(aReplay({ kind: 'deliveries', filter: {} }, { tenant: 'acme' }))
  await store.changeReplay(cancelled.id, 'running', 'cancelled', t0 + 202)
  const selection = { kind: 'recover', endpointId: recovered.id, since: t0 - 1, only: 'missing' } as const
  const recovery = await store.createReplay(aReplay(selection))
  const recover = { types: recovered.types, tenant: recovered.tenant, ordering: recovered.ordering }
  await store.stepReplay({ id: recovery.id, limit: 3, now: t0 + 203, recover, newIds: newIds(3) })
}

export function newIds(count: number): readonly string[] {
  return Array.from({ length: count }, () => anId('dlv'))
}

async function runReplays(store: Store, limit: number): Promise<void> {
  for (const { id } of await allOf((page) => store.listReplays({ status: 'running', limit: 100, ...page }))) {
    await store.stepReplay({ id, limit, now: t0 + 100, recover: null, newIds: [] })
    await store.stepReplay({ id, limit, now: t0 + 101, recover: null, newIds: [] })
  }
}

async function claim(store: Store, endpoint: Endpoint, limit: number): Promise<readonly Claim[]> {
  return (await store.claim({ from: { endpointId: endpoint.id }, limit, ...allOfIt })).claims
}

function attempt(given: object = {}) {
  return {
    number: 1,
    startedAt: t0 + 1,
    tookMs: 12,
    outcome: 'retryable' as const,
    statusCode: 503,
    error: null,
    responseHeaders: { 'x-nul': '\u0000' },
    responseBody: 'körper',
    errorClass: null,
    dependency: null,
    stack: null,
    ...given,
  }
}

function dead({ delivery }: Claim, reason: Reason) {
  const { leaseEndsAt: _, ...facts } = delivery
  const end = { status: 'failed', reason, settledAt: t0 + 10, lastError: 'HTTP 503 \u0000', lastAttemptAt: t0 + 2 }
  const to = { ...facts, ...end, attempts: 1, triesInBudget: 1, version: facts.version + 1 } as Settled
  return { to, attempt: attempt({ error: 'HTTP 503' }), claimNext: null }
}

/** All that people and the dispatcher can read, in an order that does not depend on the store. */
export async function readAll(store: Store) {
  const deliveries = await allOf((page) => store.listDeliveries({ limit: 500, ...page }))
  const events = await allOf((page) => store.listEvents({ limit: 500, ...page }))
  const stats = await store.stats()
  return withoutNuls({
    endpoints: await store.listEntries('endpoint'),
    sources: await store.listEntries('source'),
    relays: await store.listEntries('relay'),
    keys: await store.listEntries('key'),
    conditions: sorted(await store.listConditions(), ({ endpointId }) => endpointId),
    events,
    bodies: await inTurn(events, async ({ id }) => (await store.getEvent(id))?.body),
    deliveries,
    attempts: await inTurn(deliveries, ({ delivery }) => store.listAttempts(delivery.id)),
    replays: await allOf((page) => store.listReplays({ limit: 2, ...page })),
    backlog: sorted(stats.backlog, ({ endpointId }) => endpointId),
    dead: [stats.deadLetters, sorted(stats.deadLettersAt, ({ endpointId }) => endpointId)],
    counts: sorted(await store.deadLettersSince(0), ({ endpointId, reason }) => endpointId + reason),
    due: sorted(await store.backlog(t0 + 1e9), ({ endpointId }) => endpointId),
  })
}

/** Shows what differs first, and not all there is. */
export function assertSame(
  actual: Readonly<Record<string, unknown>>,
  expected: Readonly<Record<string, unknown>>,
): void {
  for (const [name, value] of Object.entries(expected)) {
    const [here, there] = [itemsOf(value), itemsOf(actual[name])]
    here.forEach((item, at) => {
      assert.deepEqual({ [`${name} ${at}`]: there[at] }, { [`${name} ${at}`]: item })
    })
    assert.equal(there.length, here.length, name)
  }
}

function itemsOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  return typeof value === 'object' && value !== null ? Object.entries(value) : [value]
}

/** Postgres keeps another character for NUL. */
function withoutNuls<T>(value: T): T {
  if (typeof value === 'string') return value.replaceAll('\u0000', '\ufffd') as T
  if (value instanceof Uint8Array) return hash('sha256', value) as T
  if (Array.isArray(value)) return value.map(withoutNuls) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, withoutNuls(field)])) as T
}

/** Delivers all that waits at an endpoint; answers what was claimed: in the order of their lanes, and all others. */
export async function deliverAll(store: Store, endpoint: Endpoint) {
  const lanes: Record<string, string[]> = {}
  const seen: [string, object][] = []
  for (;;) {
    const from = { endpointId: endpoint.id }
    const { claims } = await store.claim({ from, limit: 50, ...allOfIt, now: t0 + 1e9, leaseEndsAt: t0 + 2e9 })
    if (claims.length === 0) break
    for (const { delivery, event, interruptions } of claims) {
      if (delivery.lane !== null) lanes[delivery.lane] = [...(lanes[delivery.lane] ?? []), delivery.id]
      seen.push([delivery.id, withoutNuls({ delivery, event, interruptions })])
    }
    const ends = claims.map((one) => delivered(one, t0 + 1e9))
    await store.commit(ends.map((end) => ({ ...end, to: { ...end.to, retryAfter: null } })))
  }
  return { lanes, seen: sorted(seen, ([id]) => id) }
}

async function allOf<T>(read: (page: { cursor?: string }) => Promise<Page<T>>): Promise<readonly T[]> {
  const items: T[] = []
  for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
    const page: Page<T> = await read(cursor === null ? {} : { cursor })
    items.push(...page.items)
    cursor = page.next
  }
  return items
}

async function inTurn<T, R>(items: readonly T[], read: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = []
  for (const item of items) results.push(await read(item))
  return results
}

function sorted<T>(items: readonly T[], by: (item: T) => string): readonly T[] {
  return items.toSorted((a, b) => (by(a) < by(b) ? -1 : 1))
}
