import type { BreakerPolicy } from './circuit-breaker.ts'
import type { Classification } from './failure-classifier.ts'
import type { RetryPolicy } from './retry-policy.ts'

export const orderings = ['none', 'key', 'endpoint'] as const
export type Ordering = (typeof orderings)[number]
export const endpointStatuses = ['active', 'paused', 'disabled'] as const
export type EndpointStatus = (typeof endpointStatuses)[number]

/** A signing secret; during a rotation the old one has a date of expiry and both sign. */
export type SigningSecret = Readonly<{ secret: string; expiresAt: number | null }>

/** Where events go, and by which rules. */
export type Endpoint = Readonly<{
  id: string
  tenant: string
  kind: 'http'
  url: string
  description: string
  types: readonly string[]
  ordering: Ordering
  concurrency: number
  rateLimit: Readonly<{ perSecond: number }> | null
  timeoutMs: number
  retry: RetryPolicy
  /** null: no breaker. */
  breaker: BreakerPolicy | null
  classify: Classification
  headers: Readonly<Record<string, string>>
  /** Newest first; never empty for http endpoints. */
  secrets: readonly SigningSecret[]
  status: EndpointStatus
  /** Why it is not active; null while it is. */
  statusReason: string | null
  createdAt: number
  updatedAt: number
}>
