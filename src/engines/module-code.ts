import type { ModuleCode } from './engine.ts'
import type { AnyHandler } from './handled.ts'

/** The handler that a module exports. The module is imported once; the import counts against the first task's timeout. */
export async function importedHandler({ module, export: name }: ModuleCode): Promise<AnyHandler> {
  const handler: unknown = (await import(module))[name]
  if (typeof handler === 'function') return handler as AnyHandler
  throw new Error(`${module} has no function as its export ${JSON.stringify(name)}.`)
}
