import { type Failed, newborn } from '../../core/delivery.ts'
import { birthOf, born, bornEnded } from '../../core/lifecycle.ts'
import type { Appended, AppendedItem, Arrival, NewDelivery } from '../pipeline-store.ts'
import { asStored, byteas, int4s, int8s, keys, texts } from './arrays.ts'
import { attemptRecord } from './attempt-rows.ts'
import { lanesMax } from './commit.ts'
import type { EndpointTable } from './endpoints.ts'
import { fromHeaders } from './event-rows.ts'
import { slotsOf } from './lane-slots.ts'
import { idOf, rowKeyOf } from './row-keys.ts'
import type { Write } from './write-stream.ts'

const eventsMax = 256
const bytesMax = 8 * 1024 * 1024

/** What the database says of a call that did not go as it was wished for; places count from 1. */
type Said = Readonly<{
  repeats?: readonly (readonly [event: number, key: string, deliveries: number])[]
  conflicts?: readonly number[]
  behind?: readonly number[]
}>

/** How a delivery begins: alive at the endpoint with this number, or ended. */
type Birth = Readonly<{ endpoint: number; failed: Failed | null }>
/** A call of the port, with the beginning of each delivery. */
export type Planned = readonly Readonly<{ arrival: Arrival; births: readonly Birth[] }>[]

/** The endpoints have to be known. */
export function plan(arrivals: readonly Arrival[], endpoints: EndpointTable): Planned {
  return arrivals.map((arrival) => ({
    arrival,
    births: arrival.deliveries.map((delivery) => {
      const { no, removed } = endpoints.find(delivery.endpointId)
      return { endpoint: no, failed: failedAtBirth(delivery, arrival.event, removed) }
    }),
  }))
}

/** Whether any of it goes into an ordered lane. */
export function hasLane(planned: Planned): boolean {
  return planned.some(({ arrival, births }) =>
    births.some(({ failed }, at) => failed === null && arrival.deliveries[at]?.lane !== null),
  )
}

/**
 * Keeps events and deliveries. One call of the port stays whole: in a batch each has its own conflicts. What was born
 * claimed for a member that this process is no longer is others' by now, and nothing is claimed.
 */
export function appendWrite(isMine: (member: number) => boolean): Write<Planned, Appended> {
  return {
    name: 'append_v1',
    fits,
    values: (calls, member) => [member, ...valuesOf(calls)],
    results: (calls, answer, { member }) => {
      const results = resultsOf(calls, answer)
      return isMine(member) ? results : results.map(unclaimed)
    },
  }
}

function unclaimed(appended: Appended): Appended {
  if (appended.kind === 'conflict') return appended
  return { ...appended, items: appended.items.map((item) => ({ ...item, claimed: item.claimed.map(() => false) })) }
}

/** Two calls that name the same key or origin go one after the other: the second is answered with the first. */
function fits(calls: readonly Planned[]): number {
  const names = new Set<string>()
  let events = 0
  let bytes = 0
  let lanes = 0
  for (const [at, planned] of calls.entries()) {
    const mine: string[] = []
    events += planned.length
    for (const { arrival } of planned) {
      const { event, idempotency, origin, deliveries } = arrival
      bytes += event.body.length
      if (idempotency !== null) mine.push(JSON.stringify(['key', idempotency.scope, idempotency.key]))
      if (origin !== undefined) mine.push(JSON.stringify(['origin', origin.scope, origin.id]))
      for (const { lane } of deliveries) if (lane !== null) lanes += 1
    }
    const isFull = events > eventsMax || bytes > bytesMax || lanes > lanesMax
    if (at > 0 && (isFull || mine.some((name) => names.has(name)))) return at
    for (const name of mine) names.add(name)
  }
  return calls.length
}

function valuesOf(calls: readonly Planned[]): readonly unknown[] {
  const planned = calls.flat()
  const arrivals = planned.map(({ arrival }) => arrival)
  const events = arrivals.map(({ event }) => event)
  const live: Placed[] = []
  const gone: object[] = []
  planned.forEach(({ arrival, births }, index) => {
    births.forEach(({ endpoint, failed }, at) => {
      const delivery = arrival.deliveries[at]
      if (delivery === undefined) return
      if (failed === null) live.push({ delivery, event: index + 1, endpoint })
      else gone.push(goneRecord(failed, { event: index + 1, endpoint, delivery }))
    })
  })
  const lanes = live.flatMap(({ delivery: { lane }, endpoint }) => (lane === null ? [] : [[endpoint, lane] as const]))
  const slots = slotsOf(lanes)
  return [
    slots === null ? null : int4s(slots),
    keys(
      'evt',
      events.map(({ id }) => id),
    ),
    int4s(calls.flatMap((call, at) => call.map(() => at))),
    texts(events.map(({ tenant }) => tenant)),
    texts(events.map(({ type }) => type)),
    texts(events.map(({ key }) => key)),
    int8s(events.map(({ receivedAt }) => receivedAt)),
    texts(events.map(({ contentType }) => contentType)),
    texts(events.map(({ headers }) => fromHeaders(headers))),
    int4s(events.map(({ dataOffset }) => dataOffset)),
    texts(events.map(({ request }) => (request === null ? null : JSON.stringify(request)))),
    int4s(events.map(({ body }) => body.length)),
    byteas(events.map(({ body }) => body)),
    int4s(arrivals.map(({ deliveries }) => deliveries.length)),
    keys(
      'dlv',
      live.map(({ delivery }) => delivery.id),
    ),
    int4s(live.map(({ event }) => event)),
    int4s(live.map(({ endpoint }) => endpoint)),
    slots === null ? null : texts(live.map(({ delivery }) => delivery.lane)),
    int8s(live.map(({ delivery }) => delivery.dueAt)),
    int8s(live.map(({ delivery }) => delivery.leaseEndsAt)),
    gone.length === 0 ? null : JSON.stringify(gone),
    ...originValues(arrivals),
    ...keyValues(arrivals),
  ]
}

type Placed = Readonly<{ delivery: NewDelivery; event: number; endpoint: number }>

/** What ended before it came, or has nobody to go to; null: it lives. */
function failedAtBirth(delivery: NewDelivery, event: Arrival['event'], isGone: boolean): Failed | null {
  if (delivery.ended === undefined && !isGone) return null
  const { id, endpointId, lane } = delivery
  const { id: eventId, receivedAt } = event
  const facts = newborn({ id, eventId, endpointId, lane, receivedAt })
  if (delivery.ended !== undefined) return bornEnded(facts, delivery.ended)
  const { dueAt, leaseEndsAt } = delivery
  const birth = birthOf({ receivedAt, isEndpointGone: true, isBehind: false, dueAt, leaseEndsAt })
  return birth.status === 'failed' ? born(facts, birth) : null
}

function goneRecord(
  failed: Failed,
  { event, endpoint, delivery }: Readonly<{ event: number; endpoint: number; delivery: NewDelivery }>,
): object {
  return {
    id: rowKeyOf('dlv', failed.id),
    event,
    endpoint,
    received_at: failed.receivedAt,
    settled_at: failed.settledAt,
    last_attempt_at: failed.lastAttemptAt,
    replayed_at: failed.replayedAt,
    version: failed.version,
    attempts: failed.attempts,
    tries_in_budget: failed.triesInBudget,
    status: failed.status,
    reason: failed.reason,
    lane: asStored(failed.lane),
    last_error: asStored(failed.lastError),
    attempt: delivery.ended === undefined ? null : attemptRecord(failed.id, delivery.ended.attempt),
  }
}

function originValues(arrivals: readonly Arrival[]): readonly unknown[] {
  const named = arrivals.flatMap(({ origin }, at) => (origin === undefined ? [] : [{ origin, at: at + 1 }]))
  if (named.length === 0) return [null, null, null]
  return [
    int4s(named.map(({ at }) => at)),
    texts(named.map(({ origin }) => origin.scope)),
    texts(named.map(({ origin }) => origin.id)),
  ]
}

function keyValues(arrivals: readonly Arrival[]): readonly unknown[] {
  const named = arrivals.flatMap(({ idempotency }, at) =>
    idempotency === null ? [] : [{ ...idempotency, at: at + 1 }],
  )
  if (named.length === 0) return [null, null, null, null, null]
  return [
    int4s(named.map(({ at }) => at)),
    texts(named.map(({ scope }) => scope)),
    texts(named.map(({ key }) => key)),
    texts(named.map(({ fingerprint }) => fingerprint)),
    int8s(named.map(({ expiresAt }) => expiresAt)),
  ]
}

function resultsOf(calls: readonly Planned[], answer: string | null): readonly Appended[] {
  const said: Said = answer === null ? {} : JSON.parse(answer)
  const repeats = new Map((said.repeats ?? []).map(([event, key, deliveries]) => [event, { key, deliveries }]))
  const conflicts = new Set(said.conflicts)
  const behind = new Set(said.behind)
  let event = 0
  let place = 0
  return calls.map((planned): Appended => {
    const clashing: number[] = []
    const items = planned.map(({ arrival, births }, index): AppendedItem => {
      event += 1
      if (conflicts.has(event)) clashing.push(index)
      const ended: number[] = []
      const claimed = births.map(({ failed }, at) => {
        if (failed !== null) ended.push(at)
        else place += 1
        return failed === null && arrival.deliveries[at]?.leaseEndsAt !== null && !behind.has(place)
      })
      const repeat = repeats.get(event)
      if (repeat === undefined) {
        return { eventId: arrival.event.id, deliveries: births.length, duplicate: false, claimed, ended }
      }
      const { key, deliveries } = repeat
      return { eventId: idOf('evt', key), deliveries, duplicate: true, claimed: [], ended: [] }
    })
    return clashing.length > 0 ? { kind: 'conflict', conflicts: clashing } : { kind: 'kept', items }
  })
}
