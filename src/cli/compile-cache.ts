import { enableCompileCache, flushCompileCache } from 'node:module'
import path from 'node:path'

/** From a checkout Node strips the types of every file on every start: keeping the result halves the time it takes. */
export function keepCompiled(): void {
  if (!import.meta.filename.endsWith('.ts')) return
  enableCompileCache(path.join(import.meta.dirname, '../../.runtime/compile-cache'))
}

/** Writes what was compiled so far: a server may be killed and never come to its own exit. */
export function saveCompiled(): void {
  flushCompileCache()
}
