import type { HttpEndpoint } from '../core/endpoint.ts'
import type { Event } from '../core/event.ts'
import { defaultTenant } from '../core/event.ts'
import type { Report } from '../core/outcome.ts'
import { hubMemoryFailed } from '../core/relay.ts'
import { presets } from '../core/retry-policy.ts'
import {
  type Deliver,
  type DeliverHead,
  type EndpointRulesMessage,
  type HubReport,
  reportLimits,
} from '../transports/relay/protocol.ts'
import type { Parcel } from '../transports/transport.ts'
import type { Tried } from './hub-events.ts'

/** An endpoint of the edge whose route leads to a target here, as the http transport takes it. */
export type Target = Readonly<{ route: string; endpoint: HttpEndpoint }>

/** The rules are the edge's, the address is ours: whoever speaks for the edge cannot name another. */
export function targetOf(message: EndpointRulesMessage, url: string): Target {
  const { endpoint: id, route, timeoutMs, classify, headers, secrets } = message
  const endpoint: HttpEndpoint = {
    ...restingRules,
    id,
    timeoutMs,
    classify,
    headers,
    secrets,
    kind: 'http',
    url,
    forwardHeaders: true,
    disableAfterMs: null,
  }
  return { route, endpoint }
}

/** What the edge decides and the hub does not ask for: retries, breakers and limits are at work there. */
const restingRules = {
  tenant: defaultTenant,
  description: '',
  types: ['*'],
  ordering: 'none',
  concurrency: 1,
  rateLimit: null,
  retry: presets.relay,
  breaker: null,
  status: 'active',
  statusReason: null,
  createdAt: 0,
  updatedAt: 0,
} as const

export function parcelOf({ head, body }: Deliver, { endpoint }: Target, sentAt: number): Parcel {
  const { delivery: deliveryId, lane, attempt, bornAt } = head
  return { event: eventOf(head, body), endpoint, deliveryId, lane, attempt, bornAt, sentAt }
}

/** The envelope, if there is one, was put around it at the edge. */
function eventOf({ event }: DeliverHead, body: Uint8Array): Event {
  return { ...event, body, dataOffset: null }
}

export function triedOf({ head, body }: Deliver, { route, endpoint }: Target, result: TriedResult): Tried {
  const { delivery, attempt, event } = head
  const { pathname, search } = new URL(endpoint.url)
  const asked = {
    delivery,
    attempt,
    eventId: event.id,
    type: event.type,
    route,
    method: 'POST',
    path: pathname + search,
    body,
  }
  return { kind: 'tried', ...asked, ...result }
}

type TriedResult = Pick<Tried, 'report' | 'outcome' | 'tookMs' | 'remembered'>

const { headerNameLengthMax, headerLengthMax, bodyLengthMax, codeLengthMax, messageLengthMax } = reportLimits

/** What the edge is told, within the limits of the protocol; null: nothing, since we have ended the try ourselves. */
export function reportForEdge(report: Report): HubReport | null {
  switch (report.kind) {
    case 'answered':
      return { ...report, headers: keptHeaders(report.headers), body: report.body.slice(0, bodyLengthMax) }
    case 'unreachable': {
      const { kind, code, message } = report
      return { kind, code: code.slice(0, codeLengthMax), message: message.slice(0, messageLengthMax) }
    }
    case 'blocked':
    case 'oversized':
      return { kind: 'blocked', message: report.message.slice(0, messageLengthMax) }
    case 'interrupted':
      return null
    case 'handled':
    case 'thrown':
      return { kind: 'unreachable', code: 'NO_ANSWER', message: 'the target gave no answer' }
  }
}

/** What the edge is told while the memory cannot be written: nothing was tried. */
export function notRemembering(problem: string): HubReport {
  const message = `the hub cannot write its memory: ${problem}`.slice(0, messageLengthMax)
  return { kind: 'unreachable', code: hubMemoryFailed, message }
}

function keptHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(headers)
  return Object.fromEntries(
    entries.filter(([name, value]) => name.length <= headerNameLengthMax && value.length <= headerLengthMax),
  )
}
