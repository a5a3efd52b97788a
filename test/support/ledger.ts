/** What the sender knows of one event. */
export type Sent = Readonly<{
  n: number
  key: string
  sha256: string
  /** The id of a 202; null when no answer ever came. */
  eventId: string | null
  /** When the sender first sent it and when it was told that it is kept, by the sender's own clock. */
  sentAt: number
  ackedAt: number
}>

/** One request that the sink got. */
export type Arrived = Readonly<{
  endpoint: string
  webhookId: string
  deliveryId: string
  attempt: number
  sha256: string
  n: number
  statusCode: number
}>

export type Ordering = 'none' | 'key' | 'endpoint'

export type History = Readonly<{
  sent: readonly Sent[]
  /** In the order of arrival. */
  arrived: readonly Arrived[]
  endpoints: Readonly<Record<string, Ordering>>
  /** Deliveries that the server lists as dead letters, by event and endpoint. */
  dead: readonly Readonly<{ eventId: string; endpoint: string }>[]
  /** Lanes of which the sink had two tries in hand at the same time. */
  overlaps: readonly string[]
  /** Tries that can have been in flight at the crashes, in sum. */
  inFlightAtCrashes: number
}>

/** Everything in a history that breaks a promise, in sentences; empty when all were kept. */
export function brokenPromises(history: History): string[] {
  return [...lost(history), ...phantoms(history), ...altered(history), ...outOfOrder(history), ...repeated(history)]
}

function lost({ sent, arrived, endpoints, dead }: History): string[] {
  const ended = new Set(dead.map(({ eventId, endpoint }) => `${eventId} ${endpoint}`))
  for (const { webhookId, endpoint, statusCode } of arrived) if (statusCode < 300) ended.add(`${webhookId} ${endpoint}`)
  return sent
    .filter(({ eventId }) => eventId !== null)
    .flatMap(({ eventId }) => Object.keys(endpoints).map((endpoint) => `${eventId} ${endpoint}`))
    .filter((delivery) => !ended.has(delivery))
    .map((delivery) => `lost: ${delivery} was acknowledged and neither delivered nor dead`)
}

function phantoms({ sent, arrived }: History): string[] {
  const known = new Set(sent.map(({ n }) => n))
  return arrived.filter(({ n }) => !known.has(n)).map(({ webhookId }) => `phantom: ${webhookId} was never sent`)
}

/** Same bytes and same id on every try; an acknowledged id is the id that arrives. */
function altered({ sent, arrived }: History): string[] {
  const byNumber = new Map(sent.map((event) => [event.n, event]))
  const idOfDelivery = new Map<string, string>()
  const problems: string[] = []
  for (const { n, sha256, webhookId, deliveryId } of arrived) {
    const event = byNumber.get(n)
    if (event !== undefined && event.sha256 !== sha256) problems.push(`altered: the bytes of ${webhookId}`)
    if (event?.eventId && event.eventId !== webhookId)
      problems.push(`altered: ${event.eventId} arrived as ${webhookId}`)
    const first = idOfDelivery.get(deliveryId) ?? webhookId
    idOfDelivery.set(deliveryId, first)
    if (first !== webhookId) problems.push(`altered: ${deliveryId} came as ${first} and as ${webhookId}`)
  }
  return problems
}

/**
 * In an ordered lane nothing arrives, not even again, after something that was sent when it had been acknowledged. One
 * try at a time: the sink tells of what it had in hand together.
 */
function outOfOrder({ sent, arrived, endpoints, overlaps }: History): string[] {
  const byNumber = new Map(sent.map((event) => [event.n, event]))
  const latestSent = new Map<string, Sent>()
  const problems = overlaps.map((lane) => `overlapping: two tries at once in lane ${lane}`)
  for (const { endpoint, n, webhookId } of arrived) {
    const event = byNumber.get(n)
    const ordering = endpoints[endpoint]
    if (ordering === undefined || ordering === 'none' || event === undefined || event.eventId === null) continue
    const lane = laneName(endpoint, ordering, event.key)
    const latest = latestSent.get(lane)
    if (latest !== undefined && latest.sentAt > event.ackedAt) {
      problems.push(`overtaken: ${webhookId} came after ${latest.eventId} in lane ${lane}`)
    }
    if (latest === undefined || event.sentAt > latest.sentAt) latestSent.set(lane, event)
  }
  return problems
}

export function laneName(endpoint: string, ordering: Ordering, key: string): string {
  return ordering === 'key' ? `${endpoint} ${key}` : endpoint
}

/**
 * Repeats of what had succeeded are at most what was in flight at the crashes. One that fails is tried again, and that
 * is the same repeat.
 */
function repeated({ arrived, inFlightAtCrashes }: History): string[] {
  const succeeded = new Set<string>()
  let repeats = 0
  for (const { deliveryId, statusCode } of arrived) {
    if (succeeded.delete(deliveryId)) repeats += 1
    if (statusCode < 300) succeeded.add(deliveryId)
  }
  return repeats > inFlightAtCrashes ? [`repeated: ${repeats} times, at most ${inFlightAtCrashes} were in flight`] : []
}
