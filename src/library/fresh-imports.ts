import { type FSWatcher, watch } from 'node:fs'
import { registerHooks } from 'node:module'
import { basename, dirname, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** Editors write a file in several steps. */
const restMs = 100
const mark = 'posthorn-version'

/**
 * Imports a module anew with everything that it imports from its own folder, and calls back when one of these files
 * changes. What came before stays in memory, as nothing can unload a module: this is for people who are writing code.
 */
export class FreshImports {
  readonly #url: string
  readonly #folder: string
  readonly #onChange: () => void
  #version = 0
  #files = new Set<string>()
  #watchers: FSWatcher[] = []
  #resting: NodeJS.Timeout | null = null

  constructor(path: string, onChange: () => void) {
    this.#url = pathToFileURL(path).href
    this.#folder = pathToFileURL(dirname(path) + sep).href
    this.#onChange = onChange
    registerHooks({
      resolve: (specifier, context, next) => {
        const found = next(specifier, context)
        return this.#isOurs(found.url, context.parentURL) ? { ...found, url: this.#marked(found.url) } : found
      },
    })
  }

  async load(): Promise<Record<string, unknown>> {
    this.#version += 1
    this.#files = new Set()
    try {
      return await import(this.#marked(this.#url))
    } finally {
      // Also what cannot be loaded: its next version may be better.
      this.#watch()
    }
  }

  /** Another module, by a URL by which it is imported anew once more. */
  anew(url: URL): URL {
    const marked = new URL(this.#marked(url.href))
    this.#watch()
    return marked
  }

  /** Files that another process has imported. */
  watchAlso(urls: readonly string[]): void {
    for (const url of urls) this.#files.add(fileURLToPath(url))
    this.#watch()
  }

  #isOurs(url: string, parent: string | undefined): boolean {
    if (parent === undefined || !parent.endsWith(`?${mark}=${this.#version}`)) return false
    return url.startsWith(this.#folder) && !url.includes('/node_modules/') && !url.includes('?')
  }

  #marked(url: string): string {
    this.#files.add(fileURLToPath(url))
    return `${url}?${mark}=${this.#version}`
  }

  #watch(): void {
    for (const watcher of this.#watchers) watcher.close()
    // Folders and not files: many editors put a new file in the place of the old one.
    const folders = new Set([...this.#files].map((file) => dirname(file)))
    this.#watchers = [...folders].map((folder) => {
      const names = new Set([...this.#files].filter((file) => dirname(file) === folder).map((file) => basename(file)))
      const watcher = watch(folder, { persistent: false }, (_, name) => {
        if (name !== null && names.has(name)) this.#changed()
      })
      watcher.on('error', () => watcher.close())
      return watcher
    })
  }

  #changed(): void {
    if (this.#resting !== null) clearTimeout(this.#resting)
    this.#resting = setTimeout(() => this.#onChange(), restMs)
    this.#resting.unref()
  }
}
