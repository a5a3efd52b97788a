import { statSync } from 'node:fs'
import { PosthornError } from '../../core/errors.ts'

/**
 * Knows whether the files that are open are still the ones that their names lead to. A file that was deleted or
 * replaced takes writes as if nothing had happened, and gives them to nobody ever again.
 */
export class FileWatch {
  readonly #file: string
  readonly #known = new Map<string, string>()

  constructor(file: string) {
    this.#file = file
    this.check()
  }

  /** Throws when one of them is gone or is another. */
  check(): void {
    // The log comes with the first write, and then stays for as long as the database is open.
    for (const name of [this.#file, `${this.#file}-wal`]) {
      const known = this.#known.get(name)
      const found = identityOf(name)
      if (found === undefined || found === known) continue
      if (known === undefined && found !== null) this.#known.set(name, found)
      else if (known !== undefined) throw gone(name, found === null ? 'deleted' : 'replaced')
    }
  }
}

/** null: it is gone. undefined: nobody can say, which is no reason to end. */
export function identityOf(name: string): string | null | undefined {
  try {
    const found = statSync(name, { throwIfNoEntry: false })
    return found === undefined ? null : `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

function gone(name: string, how: string): PosthornError {
  return new PosthornError(
    'store_missing',
    `${name} was ${how} while Posthorn was running, so nothing more can be kept; put the database back or restore a backup, and start Posthorn again.`,
  )
}
