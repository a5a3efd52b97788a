import { formatDuration } from '../core/duration.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { retryShown } from './retry-schema.ts'
import { hidden } from './shown.ts'
import { targetSettingsShown, targetShown } from './targets.ts'

/** All of an endpoint but its secrets. Headers may carry credentials: who may not change them sees only their names. */
export function endpointShown(endpoint: Endpoint, { showHeaders }: Readonly<{ showHeaders: boolean }>) {
  const { breaker } = endpoint
  return {
    id: endpoint.id,
    tenant: endpoint.tenant,
    kind: endpoint.kind,
    ...targetShown(endpoint),
    description: endpoint.description,
    types: endpoint.types,
    ordering: endpoint.ordering,
    concurrency: endpoint.concurrency,
    rateLimit: endpoint.rateLimit,
    timeout: formatDuration(endpoint.timeoutMs),
    retry: retryShown(endpoint.retry),
    breaker: breaker !== null && {
      threshold: breaker.threshold,
      cooldown: formatDuration(breaker.cooldownMs),
      whenOpen: breaker.whenOpen,
    },
    classify: endpoint.classify,
    headers: showHeaders ? endpoint.headers : namesOnly(endpoint.headers),
    ...targetSettingsShown(endpoint),
    status: endpoint.status,
    statusReason: endpoint.statusReason,
    createdAt: new Date(endpoint.createdAt).toISOString(),
    updatedAt: new Date(endpoint.updatedAt).toISOString(),
  }
}

function namesOnly(headers: Endpoint['headers']): Endpoint['headers'] {
  return Object.fromEntries(Object.keys(headers).map((name) => [name, hidden]))
}
