import type { Pipeline } from '../app.ts'
import type { Endpoint, EndpointKind, EndpointStatus } from '../core/endpoint.ts'
import { PosthornError } from '../core/errors.ts'
import { defaultTenant } from '../core/event.ts'
import { changedEndpoint, changeProblems, endpointSchemas, newEndpoint } from '../server/endpoint-schema.ts'
import { endpointShown } from '../server/endpoint-shown.ts'
import { deletionProblem, endpointWarnings, targetProblems } from '../server/endpoint-target.ts'
import { secretOf } from '../server/secrets.ts'
import { endpointStatsShown } from '../server/status-shown.ts'
import type { EndpointChangeOptions, EndpointOptions } from './options.ts'
import { invalid, notFound, readGiven } from './reading.ts'

/** An endpoint as the API shows it, without its secrets. */
export type ShownEndpoint = ReturnType<typeof endpointShown>

export type ShownEndpointStats = ReturnType<typeof endpointStatsShown>

type Warned = Readonly<{ warnings: readonly string[] }>

export type EndpointFilter = Readonly<{ tenant?: string; kind?: EndpointKind; status?: EndpointStatus }>

/** The endpoints, by the same rules and words as in the REST API. */
export class Endpoints {
  readonly #pipeline: Pipeline
  readonly #schemas: ReturnType<typeof endpointSchemas>

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline
    this.#schemas = endpointSchemas(pipeline.presets)
  }

  /** An http endpoint, or a route of a relay. The answer has its signing secret, and says what is probably not meant. */
  async create(options: EndpointOptions): Promise<ShownEndpoint & { secret: string | null } & Warned> {
    const { catalogue, ids, clock, presets } = this.#pipeline
    const creation = readGiven(this.#schemas.creation, options, 'This endpoint')
    await this.#refuse('This endpoint', creation.tenant ?? defaultTenant, creation)
    const now = clock.wall()
    const endpoint = newEndpoint(creation, ids.next('ep', now), presets, now)
    await catalogue.add(endpoint)
    const warnings = endpointWarnings(endpoint, catalogue.list())
    return { ...shown(endpoint), secret: secretOf(endpoint), warnings }
  }

  async list(filter: EndpointFilter = {}): Promise<readonly ShownEndpoint[]> {
    const names = ['tenant', 'kind', 'status'] as const
    const isWanted = (endpoint: Endpoint) =>
      names.every((name) => filter[name] === undefined || filter[name] === endpoint[name])
    return this.#pipeline.catalogue.list().filter(isWanted).map(shown)
  }

  async get(id: string): Promise<ShownEndpoint | null> {
    const endpoint = this.#pipeline.catalogue.get(id)
    return endpoint === null ? null : shown(endpoint)
  }

  /** What waits there, how its attempts go, and what keeps it from being tried; null: there is no such endpoint. */
  async stats(id: string): Promise<ShownEndpointStats | null> {
    const { catalogue, status } = this.#pipeline
    const endpoint = catalogue.get(id)
    return endpoint === null ? null : endpointStatsShown(await status.of(endpoint))
  }

  async update(id: string, options: EndpointChangeOptions): Promise<ShownEndpoint & Warned> {
    const change = readGiven(this.#schemas.change, options, 'This change')
    const known = this.#pipeline.catalogue.get(id)
    const problems = known === null ? [] : changeProblems(known, change)
    if (problems.length > 0) throw invalid('This change', problems)
    if (known !== null) await this.#refuse('This change', known.tenant, change)
    await this.#updated(id, (endpoint) => changedEndpoint(endpoint, change, this.#pipeline.clock.wall()))
    const after = this.#pipeline.catalogue.get(id)
    if (after === null) throw notFound('endpoint', id)
    return { ...shown(after), warnings: endpointWarnings(after, this.#pipeline.catalogue.list()) }
  }

  /** Not while the code of a handler is registered: stop that first. */
  async delete(id: string): Promise<void> {
    const endpoint = this.#pipeline.catalogue.get(id)
    const problem = endpoint === null ? null : deletionProblem(endpoint, this.#pipeline.dispatcher)
    if (problem !== null) throw new PosthornError('conflict', problem)
    if (!(await this.#pipeline.catalogue.remove(id))) throw notFound('endpoint', id)
  }

  pause(id: string): Promise<ShownEndpoint> {
    return this.#updated(id, (endpoint) => ({ ...endpoint, status: 'paused', statusReason: 'paused by a person' }))
  }

  resume(id: string): Promise<ShownEndpoint> {
    return this.#updated(id, (endpoint) => ({ ...endpoint, status: 'active', statusReason: null }))
  }

  async #updated(id: string, change: (endpoint: Endpoint) => Endpoint): Promise<ShownEndpoint> {
    const { catalogue, clock } = this.#pipeline
    const endpoint = await catalogue.update(id, (before) => ({ ...change(before), updatedAt: clock.wall() }))
    if (endpoint === null) throw notFound('endpoint', id)
    return shown(endpoint)
  }

  async #refuse(what: string, tenant: string, target: Parameters<typeof targetProblems>[2]): Promise<void> {
    const problems = await targetProblems(this.#pipeline, tenant, target)
    if (problems.length > 0) throw invalid(what, problems)
  }
}

/** Who has the process has everything. */
function shown(endpoint: Endpoint): ShownEndpoint {
  return endpointShown(endpoint, { showHeaders: true })
}
