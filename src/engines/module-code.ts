import type { Handler, ModuleCode } from './engine.ts'

/** The handler that a module exports. The module is imported once; the import counts against the first task's timeout. */
export async function importedHandler({ module, export: name }: ModuleCode): Promise<Handler> {
  const handler: unknown = (await import(module))[name]
  if (typeof handler === 'function') return handler as Handler
  throw new Error(`${module} has no function as its export ${JSON.stringify(name)}.`)
}
