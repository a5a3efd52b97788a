import type { Buffer } from 'node:buffer'
import type { RelayEndpoint } from '../../core/endpoint.ts'
import type { Parcel } from '../transport.ts'
import { type EndpointRulesMessage, encodeDeliver, secretsMax } from './protocol.ts'

/** A `deliver` message. The rest of its body is the event's own bytes, which all hubs share that get it. */
export type DeliverFrame = Readonly<{ first: Buffer; rest: Uint8Array; bytes: number }>

/** What is copied of a body. It is enough for the message to be worth compressing. */
const copiedBytesMax = 16 * 1024

/** A parcel as it goes over the wire. `behind` is the delivery that it follows; null: all before it have ended. */
export function deliverFrame({ event, endpoint, ...facts }: Parcel, behind: string | null): DeliverFrame {
  const { id, type, tenant, key, receivedAt, contentType, headers, request } = event
  const head = {
    kind: 'deliver',
    delivery: facts.deliveryId,
    endpoint: endpoint.id,
    bornAt: facts.bornAt,
    attempt: facts.attempt,
    lane: facts.lane,
    behind,
    event: { id, type, tenant, key, receivedAt, contentType, headers, request },
  } as const
  const rest = event.body.subarray(copiedBytesMax)
  const first = encodeDeliver({ head, body: rest.length === 0 ? event.body : event.body.subarray(0, copiedBytesMax) })
  return { first, rest, bytes: first.length + rest.length }
}

/** What the hub must know of an endpoint to deliver for it. */
export function rulesOf({ id, route, timeoutMs, classify, headers, secrets }: RelayEndpoint): EndpointRulesMessage {
  return {
    kind: 'endpoint',
    endpoint: id,
    route,
    timeoutMs,
    classify: { ...classify },
    headers: { ...headers },
    // The newest come first: those beyond what the protocol carries are the oldest.
    secrets: secrets.slice(0, secretsMax),
  }
}
