import type { Handler } from '../engines/engine.ts'
import type { ModulePlace } from './handler-code.ts'
import type { HandleOptions } from './options.ts'
import { invalid } from './reading.ts'
import type { Registration, Registrations } from './registrations.ts'

/** A handler with its options. */
export type HandlerEntry =
  | Handler
  | (HandleOptions & Readonly<{ handler: Handler }>)
  | (HandleOptions & Readonly<{ module: string | URL }>)

/** Handlers by the type that they want: what a handlers module exports by default. */
export type HandlerTable = Readonly<Record<string, HandlerEntry>>

/** Gives a handlers module its types; at run time it is the table itself. */
export function defineHandlers<T extends HandlerTable>(table: T): T {
  return table
}

/**
 * Prepares all handlers of a table or, when one of them cannot be, none. `place` is what a problem is told to be in:
 * the file and the name of the export.
 */
export function prepareTable(
  registrations: Registrations,
  table: unknown,
  place: string,
  modules?: ModulePlace,
): readonly Registration[] {
  if (typeof table !== 'object' || table === null || Array.isArray(table)) {
    throw invalid(place, [{ path: '', message: 'it must be an object like { "order.*": async (event) => {…} }' }])
  }
  const done: Registration[] = []
  try {
    for (const [type, entry] of Object.entries(table)) {
      const { handler, options } = partsOf(entry)
      done.push(registrations.prepare([type], handler, options, `${place}[${JSON.stringify(type)}]`, modules))
    }
  } catch (error) {
    for (const registration of done) registration.withdraw()
    throw error
  }
  return done
}

/** What is neither a function nor an object goes on as it is: the registration says what is wrong with it. */
function partsOf(entry: unknown): { handler: unknown; options: object } {
  if (typeof entry !== 'object' || entry === null) return { handler: entry, options: {} }
  const { handler, ...others } = entry as Record<string, unknown>
  if (handler !== undefined) return { handler, options: others }
  const { module, ...options } = others
  return { handler: module, options }
}
