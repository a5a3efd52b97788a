import type { Registry } from 'prom-client'
import type { RelayChanged } from '../core/notice.ts'
import { linkEndings, type RelayLink } from '../core/relay.ts'
import { others } from './endpoint-metrics.ts'
import { gauge, labelled } from './gauges.ts'
import type { KnownRelay } from './relay-watch.ts'

export type RelaysView = Readonly<{
  known: () => readonly KnownRelay[]
  /** The link that a relay has to this process: those of others are counted there. */
  linkOf: (relayId: string) => RelayLink | null
  /** How many hubs are away for longer than they should be; of several processes that share the store, one counts them. */
  awayCount: () => number
}>

/** Relays with series of their own; the others are one, so that the number of series stays bounded. */
const relaysShownMax = 100

export function watchRelays(register: Registry, view: RelaysView): void {
  const links = () => view.known().flatMap((relay) => linked(relay, view.linkOf(relay.id)))
  gauge(register, 'posthorn_relays', 'Relays that are set up.', () => view.known().length)
  gauge(register, 'posthorn_relays_connected', 'Hubs that are connected.', () => links().length)
  gauge(register, 'posthorn_relays_away', 'Hubs that are away for too long.', view.awayCount)
  const unanswered = 'Deliveries that are with a hub, unanswered.'
  labelled(register, 'posthorn_relay_outstanding', unanswered, ['tenant', 'relay'], async (set) => {
    for (const [labels, value] of shownOf(links(), ({ outstanding }) => outstanding, sum)) set(labels, value)
  })
  const roundTrip = 'How long a ping to a hub takes there and back; of the others, the longest.'
  labelled(register, 'posthorn_relay_round_trip_seconds', roundTrip, ['tenant', 'relay'], async (set) => {
    for (const [labels, value] of shownOf(links(), ({ roundTripMs }) => roundTripMs, longest)) {
      set(labels, value / 1_000)
    }
  })
}

export const linkEvents = ['connected', ...linkEndings] as const

/** What a change of a link counts as. */
export function linkEvent({ ending }: Pick<RelayChanged, 'ending'>): (typeof linkEvents)[number] {
  return ending ?? 'connected'
}

type Linked = Readonly<{ relay: KnownRelay; link: RelayLink }>

function linked(relay: KnownRelay, link: RelayLink | null): readonly Linked[] {
  return link === null ? [] : [{ relay, link }]
}

/** Those with the largest values, and the rest as one. */
function shownOf(
  links: readonly Linked[],
  measure: (link: RelayLink) => number | null,
  together: (values: readonly number[]) => number,
): readonly (readonly [labels: string[], value: number])[] {
  const values = links.flatMap(({ relay, link }) => {
    const value = measure(link)
    return value === null ? [] : [{ labels: [relay.tenant, relay.name], value }]
  })
  const sorted = values.toSorted((a, b) => b.value - a.value)
  const shown = sorted.slice(0, relaysShownMax).map(({ labels, value }) => [labels, value] as const)
  const rest = sorted.slice(relaysShownMax).map(({ value }) => value)
  return rest.length === 0 ? shown : [...shown, [[others, others], together(rest)]]
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function longest(values: readonly number[]): number {
  return values.reduce((max, value) => Math.max(max, value), 0)
}
