import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { setInterval } from 'node:timers/promises'
import { openSqliteStore, type SqliteSettings } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'

export const isRoot = process.getuid?.() === 0

/** Another process: it says things line by line, and ends when it is told or killed. */
export type Other = Readonly<{
  pid: number
  line(): Promise<string>
  tell(text: string): void
  /** Closes its input, by which it knows that it shall end; resolves when it has. */
  end(): Promise<void>
  kill(): Promise<void>
}>

/** The folders, stores, mounts and processes of one test; cleared away in the reverse order in which they came. */
export class Scene {
  readonly #stack = new AsyncDisposableStack()

  constructor(t: TestContext) {
    t.after(() => this.#stack.disposeAsync())
  }

  async folder(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
    this.#stack.defer(() => rm(path, { recursive: true, force: true, maxRetries: 3 }))
    return path
  }

  async newFile(): Promise<string> {
    return join(await this.folder(), 'posthorn.db')
  }

  async open(file: string, given: Partial<SqliteSettings> = {}): Promise<Store> {
    const onFatal = (error: Error): void => {
      throw error
    }
    const { store } = await openSqliteStore({ file, key: null, onFatal, ...given })
    this.#stack.defer(() => store.close())
    return store
  }

  /** A connection of some other program. */
  plain(file: string): DatabaseSync {
    const db = new DatabaseSync(file)
    this.#stack.defer(() => {
      if (db.isOpen) db.close()
    })
    return db
  }

  /** A small file system of its own in memory, for which one has to be root. */
  async tmpfs(sizeKib: number): Promise<string> {
    const path = await this.folder()
    mount('mount', '-t', 'tmpfs', '-o', `size=${sizeKib}k`, 'posthorn-test', path)
    this.#stack.defer(() => mount('umount', path))
    return path
  }

  /** Runs a script of this folder in another process. */
  other(script: string, ...args: string[]): Other {
    const path = join(import.meta.dirname, script)
    const child = spawn(process.execPath, [path, ...args], { stdio: ['pipe', 'pipe', 'inherit'] })
    const exited = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const kill = async (): Promise<void> => {
      child.kill('SIGKILL')
      await exited
    }
    this.#stack.defer(kill)
    return {
      pid: child.pid ?? 0,
      line: async () => (await lines.next()).value ?? 'it ended',
      tell: (text) => child.stdin.write(`${text}\n`),
      end: async () => {
        child.stdin.end()
        await exited
      },
      kill,
    }
  }
}

/** Asks again and again until it is so; the test's timeout is the limit. */
export async function until(t: TestContext, condition: () => boolean): Promise<void> {
  if (condition()) return
  for await (const _ of setInterval(10, null, { signal: t.signal })) if (condition()) return
}

export function integrityOf(file: string): unknown {
  const db = new DatabaseSync(file)
  try {
    return db.prepare('PRAGMA integrity_check').get()?.integrity_check
  } finally {
    db.close()
  }
}

export function mount(command: 'mount' | 'umount', ...args: string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`)
}
