import type { Pipeline } from '../app.ts'
import type { Endpoint, HandlerEndpoint } from '../core/endpoint.ts'
import { PosthornError } from '../core/errors.ts'
import { defaultTenant } from '../core/event.ts'
import type { Code, Engine, ModuleCode, OwnEngine } from '../engines/engine.ts'
import {
  type HandlerWish,
  handlerEndpoint,
  handlerName,
  handlerSchema,
  isSameEndpoint,
} from '../server/handler-schema.ts'
import { codeOf, type ModulePlace, nowhere, workersOf } from './handler-code.ts'
import { invalid, readGiven } from './reading.ts'

/** What `handle` answers. */
export interface Handle {
  readonly name: string
  readonly tenant: string
  /** Resolves when the handler's endpoint is on disk, and rejects when its module cannot be used. Sending waits for it. */
  readonly ready: Promise<void>
  /** No further try begins; those under way finish. Deliveries wait until the handler is registered again. */
  stop(): Promise<void>
}

type RegistrationParts = Pick<Pipeline, 'catalogue' | 'handlers' | 'engines' | 'ids' | 'clock' | 'presets' | 'log'>

/** The handlers of this process. */
export class Registrations {
  readonly #parts: RegistrationParts
  readonly #schema: ReturnType<typeof handlerSchema>
  readonly #byName = new Map<string, Registration>()
  /** Not on disk yet: what is sent before would miss them. */
  readonly #unready = new Set<Registration>()

  constructor(parts: RegistrationParts) {
    this.#parts = parts
    this.#schema = handlerSchema(parts.presets)
  }

  /** Checks a handler and reserves its name; nothing happens before `begin`. */
  prepare(
    types: readonly string[],
    handler: unknown,
    options: object,
    what: string,
    modules: ModulePlace = nowhere,
  ): Registration {
    const wish = readGiven(this.#schema, { ...options, types }, what)
    const found = codeOf(handler, wish, modules)
    if ('problems' in found) throw invalid(what, found.problems)
    const registration = new Registration(this.#parts, { wish, code: found.code, what, modules }, () =>
      this.#forget(registration),
    )
    const key = keyOf(registration)
    if (this.#byName.has(key)) {
      const message = `${registration.name} is registered already; give one of the two another name, like { name: 'billing' }`
      throw invalid(what, [{ path: 'name', message }])
    }
    this.#byName.set(key, registration)
    return registration
  }

  begin(registrations: readonly Registration[]): void {
    for (const registration of registrations) {
      this.#unready.add(registration)
      this.#try(registration).catch((err) => {
        this.#parts.log.error({ err, handler: registration.name }, 'handler.not_kept')
      })
    }
  }

  /**
   * Prepares successors, which may have the names of those they follow, and loads their code. When it rejects, nothing
   * has changed.
   */
  async succeed(
    followed: readonly Registration[],
    prepare: () => readonly Registration[],
  ): Promise<readonly Registration[]> {
    for (const registration of followed) this.#byName.delete(keyOf(registration))
    let successors: readonly Registration[] = []
    try {
      successors = prepare()
      await Promise.all(successors.map((successor) => successor.load()))
      return successors
    } catch (error) {
      for (const successor of successors) successor.withdraw()
      for (const registration of followed) this.#byName.set(keyOf(registration), registration)
      throw error
    }
  }

  get areReady(): boolean {
    return this.#unready.size === 0
  }

  /** Resolves when every endpoint is on disk; one that could not be written is tried again. */
  async ready(): Promise<void> {
    await Promise.all([...this.#unready].map((registration) => this.#try(registration)))
  }

  /** Handlers that the catalogue knows and no code has registered: their deliveries wait. */
  missing(): readonly HandlerEndpoint[] {
    return this.#parts.catalogue
      .list()
      .filter((endpoint) => endpoint.kind === 'handler')
      .filter((endpoint) => !this.#byName.has(keyOf({ tenant: endpoint.tenant, name: endpoint.handler })))
  }

  async #try(registration: Registration): Promise<void> {
    await registration.enrol()
    this.#unready.delete(registration)
  }

  #forget(registration: Registration): void {
    const key = keyOf(registration)
    if (this.#byName.get(key) === registration) this.#byName.delete(key)
    this.#unready.delete(registration)
  }
}

/** What a registration is made from. */
type Given = Readonly<{
  wish: HandlerWish
  code: Code
  /** What a problem is told of. */
  what: string
  modules: ModulePlace
}>

/** The last enrolment under way in each catalogue, whoever began it. */
const lastTurns = new WeakMap<object, Promise<void>>()

/** One handler on its way to its endpoint. */
export class Registration implements Handle {
  readonly name: string
  readonly tenant: string
  readonly #parts: RegistrationParts
  readonly #given: Given
  readonly #code: Readonly<{ name: string; code: Code; engine: Engine }>
  /** The engine, if no other handler uses it. */
  readonly #own: OwnEngine | null
  readonly #onWithdrawn: () => void
  #loading: Promise<void> | null = null
  #enrolling: Promise<void> | null = null
  #endpointId: string | null = null
  #isWithdrawn = false

  constructor(parts: RegistrationParts, given: Given, onWithdrawn: () => void) {
    const { wish, code } = given
    this.name = handlerName(wish)
    this.tenant = wish.tenant ?? defaultTenant
    this.#parts = parts
    this.#given = given
    this.#own = wish.engine === 'process' ? parts.engines.openProcesses(this.name, workersOf(wish)) : null
    this.#code = { name: this.name, code, engine: this.#own ?? parts.engines.async }
    this.#onWithdrawn = onWithdrawn
  }

  get ready(): Promise<void> {
    return this.enrol()
  }

  /** Writes the endpoint and takes its deliveries from then on. One that failed may be asked again. */
  enrol(): Promise<void> {
    this.#enrolling ??= this.#loadAndEnrol().catch((error) => {
      this.#enrolling = null
      throw error
    })
    return this.#enrolling
  }

  /** Loads the code if it is a module. One that cannot be used is an error of its registration, not of the first event. */
  load(): Promise<void> {
    const { code } = this.#given
    if (typeof code === 'function') return Promise.resolve()
    this.#loading ??= this.#load(code).catch((error) => {
      this.#loading = null
      throw error
    })
    return this.#loading
  }

  withdraw(): void {
    this.#isWithdrawn = true
    if (this.#endpointId !== null) this.#parts.handlers.unregister(this.#endpointId, this.#code)
    this.#own?.retire()
    this.#onWithdrawn()
  }

  async stop(): Promise<void> {
    this.withdraw()
  }

  async #load(code: ModuleCode): Promise<void> {
    const { modules, what } = this.#given
    const { thrown, files } = await this.#code.engine.load(code)
    modules.loaded(files)
    if (thrown === null || this.#isWithdrawn) return
    throw invalid(what, [{ path: 'module', message: `cannot be loaded: ${thrown.message.replace(/\.$/, '')}` }])
  }

  async #loadAndEnrol(): Promise<void> {
    if (typeof this.#given.code !== 'function') await this.load()
    await this.#enrol()
  }

  /** In turn: of two with one name, the second must find the endpoint of the first. */
  #enrol(): Promise<void> {
    const turn = lastTurns.get(this.#parts.catalogue) ?? Promise.resolve()
    const enrolled = turn.then(() => this.#enrolNow())
    lastTurns.set(
      this.#parts.catalogue,
      enrolled.catch(() => {}),
    )
    return enrolled
  }

  async #enrolNow(): Promise<void> {
    if (this.#isWithdrawn) return
    const { catalogue, handlers, ids, clock, presets } = this.#parts
    const now = clock.wall()
    const known = this.#known()
    const wanted = handlerEndpoint(this.#given.wish, known, { id: ids.next('ep', now), presets, now })
    if (known === null) {
      // Another process may have made it at the same moment: then there is one to take up.
      if (!(await this.#added(wanted))) return this.#enrolNow()
    }
    // As it is when its turn comes: a person may pause it meanwhile.
    else if (!isSameEndpoint(known, wanted)) {
      const { status: _, statusReason: __, ...rules } = wanted
      await catalogue.update(known.id, (endpoint) => ({ ...endpoint, ...rules }))
    }
    if (this.#isWithdrawn) return
    this.#endpointId = wanted.id
    handlers.register(wanted.id, this.#code)
  }

  /** Answers whether it is new; false: there is one of this name. */
  async #added(wanted: Endpoint): Promise<boolean> {
    try {
      await this.#parts.catalogue.add(wanted)
      return true
    } catch (error) {
      const isTaken = error instanceof PosthornError && error.code === 'conflict' && this.#known() !== null
      if (!isTaken) throw error
      return false
    }
  }

  #known(): HandlerEndpoint | null {
    for (const endpoint of this.#parts.catalogue.list()) {
      if (endpoint.kind === 'handler' && endpoint.tenant === this.tenant && endpoint.handler === this.name)
        return endpoint
    }
    return null
  }
}

function keyOf({ tenant, name }: { tenant: string; name: string }): string {
  return `${tenant}\n${name}`
}
