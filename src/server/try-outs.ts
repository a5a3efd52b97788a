import type { Attempt } from '../core/attempt.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { quotaProblem } from '../core/quota.ts'
import { Problem } from './problem.ts'
import type { ServerParts } from './server.ts'

const tryOutsMax = 100

/**
 * Tests of endpoints: as many at once as the limits allow, and no more per second than the endpoint's rate limit. They do
 * not wait for the endpoint's concurrency or its breaker: a test has to tell how the endpoint is, also while it fails.
 */
export class TryOuts {
  readonly #parts: Pick<ServerParts, 'dispatcher' | 'config'>
  readonly #running = new Map<symbol, string | null>()

  constructor(parts: Pick<ServerParts, 'dispatcher' | 'config'>) {
    this.#parts = parts
  }

  /** `tenant` is that of who asks; null: the operator. */
  async run(endpoint: Endpoint, tenant: string | null, content: { type: string; data: Uint8Array }): Promise<Attempt> {
    const { dispatcher, config } = this.#parts
    const quota = {
      things: 'endpoint tests at once',
      max: tryOutsMax,
      tenantMax: config.tenantTestsMax,
      setting: 'POSTHORN_TENANT_TESTS_MAX',
    }
    const problem = quotaProblem(quota, tenant, [...this.#running.values()])
    if (problem !== null) throw limitReached(problem, 1)
    const waitMs = dispatcher.tryOutWaitMs(endpoint.id)
    if (waitMs !== null) {
      const { perSecond } = endpoint.rateLimit ?? {}
      throw limitReached(`The rate limit of the endpoint is ${perSecond} per second.`, Math.ceil(waitMs / 1_000))
    }
    const place = Symbol()
    this.#running.set(place, tenant)
    try {
      return await dispatcher.tryOut(endpoint, content)
    } finally {
      this.#running.delete(place)
    }
  }
}

function limitReached(problem: string, seconds: number): Problem {
  return new Problem('limit_reached', `${problem} Try again later.`, { headers: { 'retry-after': String(seconds) } })
}
