import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { isAbsolute } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { Code, Handler } from '../engines/engine.ts'
import type { HandlerWish } from '../server/handler-schema.ts'
import type { FieldError } from '../server/problem.ts'

/** Where modules are named. */
export interface ModulePlace {
  /** The URL of a module; null: what was given names none from here. */
  locate(named: string | URL): URL | null
  /** These files were read for a module, whether it could be used then or not. */
  loaded(files: readonly string[]): void
}

/** Code that is in no file that we know: only what is absolute names a module. */
export const nowhere: ModulePlace = {
  locate: (named) => {
    if (named instanceof URL) return named
    if (isAbsolute(named)) return pathToFileURL(named)
    return URL.parse(named)
  },
  loaded: () => {},
}

/** How code is to be run. */
export type CodeWish = Pick<HandlerWish, 'engine' | 'workers' | 'export' | 'concurrency'>

/** The code that was given as a handler, or what is wrong with that. */
export function codeOf(
  given: unknown,
  wish: CodeWish,
  place: ModulePlace,
): Readonly<{ code: Code } | { problems: readonly FieldError[] }> {
  const isModule = given instanceof URL || typeof given === 'string'
  const problems = problemsOf(wish, isModule)
  if (isModule) {
    const url = place.locate(given)
    if (url?.protocol !== 'file:') problems.push({ path: 'module', message: moduleWanted })
    else if (!existsSync(url)) problems.push({ path: 'module', message: `is not found at ${fileURLToPath(url)}` })
    else if (problems.length === 0) return { code: { module: url.href, export: wish.export ?? 'default' } }
  } else if (typeof given !== 'function') {
    problems.push({ path: 'handler', message: 'must be a function, or the URL of a module' })
  }
  return problems.length > 0 ? { problems } : { code: given as Handler }
}

const moduleWanted = `must be the URL of a file, like new URL('./resize.ts', import.meta.url)`

function problemsOf({ engine, workers, export: name }: CodeWish, isModule: boolean): FieldError[] {
  const problems: FieldError[] = []
  if (engine === 'process' && !isModule) {
    const message = `'process' runs modules and not functions: give new URL('./handler.ts', import.meta.url) instead`
    problems.push({ path: 'engine', message })
  }
  if (workers !== undefined && engine !== 'process') {
    problems.push({ path: 'workers', message: `can only be given with engine: 'process'` })
  }
  if (name !== undefined && !isModule) {
    problems.push({ path: 'export', message: 'can only be given with a module' })
  }
  return problems
}

/** More processes than cores would only take turns, and more than runs at once would wait. */
export function workersOf({ workers, concurrency = kindFacts.handler.defaults.concurrency }: CodeWish): number {
  return workers ?? Math.min(availableParallelism(), concurrency)
}
