import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const sectorBytes = 512

/** Why power cannot be cut on this machine; null when it can. */
export function whyNoPowerCut(): string | null {
  if (process.platform !== 'linux') return 'the disk that loses what was not synced is made for Linux'
  return spawnSync('cc', ['--version']).status === 0 ? null : 'there is no C compiler (cc)'
}

/** A disk that loses what was not synced: what a process wrote to it, and what was left when the power went. */
export class LossyDisk {
  readonly #home: string
  readonly #library: string

  static async make(): Promise<LossyDisk> {
    const home = await mkdtemp(join(tmpdir(), 'posthorn-power-'))
    const library = join(home, 'power-cut.so')
    const source = join(import.meta.dirname, 'power-cut.c')
    const { status, stderr } = spawnSync(
      'cc',
      ['-shared', '-fPIC', '-O1', '-Wall', '-Wno-format-truncation', '-o', library, source, '-ldl', '-lpthread'],
      { encoding: 'utf8' },
    )
    if (status !== 0) throw new Error(`power-cut.c does not compile:\n${stderr}`)
    return new LossyDisk(home, library)
  }

  private constructor(home: string, library: string) {
    this.#home = home
    this.#library = library
  }

  remove(): Promise<void> {
    return rm(this.#home, { recursive: true, force: true })
  }

  /**
   * Runs a script on an empty disk until the power goes at the given sync, or until it ends by itself. It gets the
   * folder and, when the disk shall be able to lie, the file that makes it.
   */
  async run(script: string, { cutAt, mayLie = false }: { cutAt: number; mayLie?: boolean }): Promise<PowerCut> {
    const home = join(this.#home, `cut-${cutAt}`)
    const cut = new PowerCut(home)
    for (const folder of [home, cut.folder, ...cut.platter]) mkdirSync(folder)
    const child = spawn(process.execPath, [script, cut.folder, ...(mayLie ? [cut.lie] : [])], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: {
        ...process.env,
        LD_PRELOAD: this.#library,
        POWER_CUT_DIR: cut.folder,
        POWER_CUT_PLATTER: cut.platter[0],
        POWER_CUT_AT: String(cutAt),
        POWER_CUT_LIE: cut.lie,
      },
    })
    const exited = once(child, 'close')
    for await (const line of createInterface({ input: child.stdout })) cut.said.push(line)
    const [code, signal] = await exited
    if (code !== 0 && signal !== 'SIGKILL') throw new Error(`the process ended by itself: ${code ?? signal}`)
    cut.ended = code === 0
    return cut
  }
}

export class PowerCut {
  readonly #home: string
  /** What the process printed, line by line. */
  readonly said: string[] = []
  /** The process ended by itself before the power went. */
  ended = false

  constructor(home: string) {
    this.#home = home
  }

  /** The folder as the process saw it. */
  get folder(): string {
    return join(this.#home, 'seen')
  }

  get platter(): readonly [root: string, inodes: string, names: string] {
    const root = join(this.#home, 'platter')
    return [root, join(root, 'inodes'), join(root, 'names')]
  }

  /** While this file exists, syncs are lies. */
  get lie(): string {
    return join(this.#home, 'lie')
  }

  /** The folder after the power came back: only what was synced is there. */
  survivors(): string {
    return this.#restore('survivors', () => false)
  }

  /** The same, but of what was not synced some sectors reached the disk too, and others did not. */
  tornSurvivors(seed: number): string {
    return this.#restore(`torn-${seed}`, coin(seed))
  }

  #restore(name: string, alsoUnsynced: () => boolean): string {
    const restored = join(this.#home, name)
    mkdirSync(restored)
    const [, , names] = this.platter
    const [synced, seen] = [readdirSync(names), readdirSync(this.folder)]
    for (const file of new Set([...synced, ...seen])) {
      if (!synced.includes(file) && !alsoUnsynced()) continue
      const bytes = mix(contentOf(join(names, file)), contentOf(join(this.folder, file)), alsoUnsynced)
      writeFileSync(join(restored, file), bytes)
    }
    return restored
  }
}

/** A name can be there without its content: the folder was synced, the file was not. */
function contentOf(file: string): Buffer {
  return existsSync(file) ? readFileSync(file) : Buffer.alloc(0)
}

/** Where both differ, each sector is the one or the other. */
function mix(synced: Buffer, seen: Buffer, takeSeen: () => boolean): Buffer {
  const mixed = Buffer.alloc(takeSeen() ? seen.length : synced.length)
  synced.copy(mixed)
  for (let at = 0; at < Math.min(mixed.length, seen.length); at += sectorBytes) {
    const sector = seen.subarray(at, at + sectorBytes)
    if (!mixed.subarray(at, at + sector.length).equals(sector) && takeSeen()) sector.copy(mixed, at)
  }
  return mixed
}

/** Heads or tails, the same for the same seed (mulberry32). */
function coin(seed: number): () => boolean {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) & 1) === 1
  }
}
