import { type BreakerPolicy, defaultBreaker } from './circuit-breaker.ts'
import type { Endpoint, EndpointKind, Ordering } from './endpoint.ts'
import type { Classification } from './failure-classifier.ts'
import type { PresetName } from './retry-policy.ts'

/** What is true of every endpoint of a kind. Code outside the transports asks for a fact and not for the kind. */
export type KindFacts = Readonly<{
  /** Its code runs in this process: it can crash the process, and nothing crosses a wire. */
  runsHere: boolean
  /** A 410 disables it, and so do failures alone for as long as `disableAfterMs`. */
  mayBeDisabled: boolean
  /** When one delivery is told to come later (Retry-After), the whole endpoint is held. */
  holdsOnRetryAfter: boolean
  /** What failed because the connection was lost is due again as soon as there is a new one. */
  retriesOnReturn: boolean
  /** The last error quotes the answer: the people who read it have no log of the target at hand. */
  answersInError: boolean
  /** Who has to be there before anything can be tried; null: nobody. */
  absentee: 'handler' | 'hub' | null
  /** Its requests are signed, so it has secrets. */
  signs: boolean
  /** The method, query and headers that a source kept are always sent on. Otherwise the endpoint's settings decide. */
  forwardsRequest: boolean
  /** The fields that say where it leads, in words. */
  targetFields: string
  defaults: KindDefaults
}>

/** The rules of an endpoint that says nothing about them. */
export type KindDefaults = Readonly<{
  ordering: Ordering
  concurrency: number
  timeoutMs: number
  preset: PresetName
  breaker: BreakerPolicy | null
  classify: Classification
}>

const secondMs = 1_000

export const kindFacts: Readonly<Record<EndpointKind, KindFacts>> = {
  http: {
    runsHere: false,
    mayBeDisabled: true,
    holdsOnRetryAfter: true,
    retriesOnReturn: false,
    answersInError: false,
    absentee: null,
    signs: true,
    forwardsRequest: false,
    targetFields: 'URL',
    defaults: {
      ordering: 'none',
      concurrency: 10,
      timeoutMs: 15 * secondMs,
      preset: 'webhook',
      breaker: defaultBreaker,
      classify: {},
    },
  },
  handler: {
    runsHere: true,
    mayBeDisabled: false,
    // A handler that wants to see one event later says nothing about the others.
    holdsOnRetryAfter: false,
    retriesOnReturn: false,
    answersInError: false,
    absentee: 'handler',
    signs: false,
    forwardsRequest: true,
    targetFields: 'handler',
    defaults: {
      ordering: 'none',
      concurrency: 8,
      timeoutMs: 30 * secondMs,
      preset: 'processing',
      breaker: null,
      classify: {},
    },
  },
  relay: {
    runsHere: false,
    // What answers behind a hub is not the endpoint: the next delivery may go elsewhere.
    mayBeDisabled: false,
    holdsOnRetryAfter: true,
    retriesOnReturn: true,
    answersInError: true,
    absentee: 'hub',
    signs: true,
    forwardsRequest: true,
    targetFields: 'relay, route',
    // A hub is ours: a 4xx of its target is final, and while the hub is away no breaker is needed.
    defaults: {
      ordering: 'endpoint',
      concurrency: 100,
      timeoutMs: 15 * secondMs,
      preset: 'relay',
      breaker: null,
      classify: { '4xx': 'permanent' },
    },
  },
}

/** Endpoints of the kinds that Posthorn may disable say after how long. */
export function mayBeDisabled(endpoint: Endpoint): endpoint is Extract<Endpoint, { disableAfterMs: number | null }> {
  return kindFacts[endpoint.kind].mayBeDisabled
}
