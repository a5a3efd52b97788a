import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Pipeline } from '../app.ts'
import { PosthornError } from '../core/errors.ts'
import { FreshImports } from './fresh-imports.ts'
import type { ModulePlace } from './handler-code.ts'
import { prepareTable } from './handler-table.ts'
import { type Registration, Registrations } from './registrations.ts'

export type HandlersModuleSettings = Readonly<{
  /** Whether the module is loaded again when its files change. */
  watch: boolean
  /** Tells a person. */
  say: (line: string) => void
}>

/** Registers the handlers of the module that the configuration names, if it names one. */
export async function openHandlersModule(pipeline: Pipeline, settings: HandlersModuleSettings): Promise<void> {
  const registrations = new Registrations(pipeline)
  const { handlers: file } = pipeline.config
  if (file === null) tellMissing(pipeline, registrations, settings.say)
  else await new HandlersModule(pipeline, registrations, file, settings).open()
}

/** Handlers of an earlier version: what was for them is not lost, and somebody should know that it waits. */
function tellMissing({ log, dispatcher }: Pipeline, registrations: Registrations, say: (line: string) => void): void {
  for (const { id: endpointId, tenant, handler } of registrations.missing()) {
    if (dispatcher.isServed(endpointId)) continue
    log.warn({ endpointId, tenant, handler }, 'handler.not_registered')
    say(`the handler ${handler} is not registered: its deliveries wait until it is, or until ${endpointId} is deleted`)
  }
}

class HandlersModule {
  readonly #pipeline: Pipeline
  readonly #registrations: Registrations
  readonly #file: string
  readonly #settings: HandlersModuleSettings
  #registered: readonly Registration[] = []
  #imports: FreshImports | null = null
  #reloading: Promise<void> = Promise.resolve()

  constructor(pipeline: Pipeline, registrations: Registrations, file: string, settings: HandlersModuleSettings) {
    this.#pipeline = pipeline
    this.#registrations = registrations
    this.#file = file
    this.#settings = settings
  }

  async open(): Promise<void> {
    const path = resolve(this.#file)
    if (this.#settings.watch) this.#imports = new FreshImports(path, () => this.#reloadInTurn())
    try {
      await this.#load(path)
    } catch (cause) {
      throw new PosthornError('config_invalid', reasonOf(cause), { cause })
    }
    this.#tell('handlers.loaded', `handlers: ${this.#registered.map(({ name }) => name).join(' · ') || 'none'}`)
  }

  /** One after another, so that the newest version is the last to be loaded. */
  #reloadInTurn(): void {
    this.#reloading = this.#reloading.then(() => this.#reload())
  }

  async #reload(): Promise<void> {
    try {
      await this.#load(resolve(this.#file))
      this.#tell('handlers.loaded_again', `${this.#file} is loaded again; what runs goes on with the old code`)
    } catch (err) {
      this.#pipeline.log.error({ err, file: this.#file }, 'handlers.not_loaded')
      this.#settings.say(`the old handlers go on, because ${reasonOf(err)}`)
    }
  }

  async #load(path: string): Promise<void> {
    const table = await this.#tableOf(path)
    const before = this.#registered
    const place = `${this.#file}: export default`
    const prepare = () => prepareTable(this.#registrations, table, place, this.#modulesBeside(path))
    const after = await this.#registrations.succeed(before, prepare)
    this.#registrations.begin(after)
    this.#registered = after
    await this.#registrations.ready()
    // Whose endpoints have new code by now keep it; the others are held from now on.
    for (const registration of before) registration.withdraw()
    tellMissing(this.#pipeline, this.#registrations, this.#settings.say)
  }

  /** Modules that the file names, by their path from its folder. */
  #modulesBeside(path: string): ModulePlace {
    return {
      locate: (named) => {
        const isUrl = named instanceof URL || named.startsWith('file:')
        const url = isUrl ? new URL(named) : pathToFileURL(resolve(dirname(path), named))
        return this.#imports?.anew(url) ?? url
      },
      loaded: (files) => this.#imports?.watchAlso(files),
    }
  }

  async #tableOf(path: string): Promise<unknown> {
    if (!existsSync(path)) throw new PosthornError('invalid', `There is no file ${this.#file} to load handlers from.`)
    const module = await (this.#imports?.load() ?? import(pathToFileURL(path).href)).catch((cause) => {
      throw new PosthornError('invalid', `${this.#file} cannot be loaded: ${loadProblem(cause)}`, { cause })
    })
    if (module.default !== undefined) return module.default
    const wanted = `write export default { 'order.*': async (event) => {…} }`
    throw new PosthornError('invalid', `${this.#file} has no default export; ${wanted}.`)
  }

  #tell(fact: string, line: string): void {
    const handlers = this.#registered.map(({ name }) => name)
    this.#pipeline.log.info({ file: this.#file, handlers }, fact)
    this.#settings.say(line)
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** With the place in the file, which is in the stack and not in the message: before it for what cannot be parsed. */
function loadProblem(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const [first = '', ...frames] = (error.stack ?? '').split('\n')
  const isPlace = /^(?:file:|\/|[A-Z]:\\).*:\d+$/.test(first)
  const place = isPlace ? first : frames.find((frame) => /^\s+at /.test(frame) && !frame.includes('node:'))?.trim()
  return place === undefined ? `${error}` : `${error} (${place})`
}
