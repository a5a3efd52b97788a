import { type ChildProcess, fork, type SpawnOptions, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'
import type { BaselineCommands } from './baseline-forwarder.ts'
import type { WebSocketsCommands } from './baseline-websockets.ts'
import type { Dress } from './http-bytes.ts'
import type { IdleHubsCommands } from './idle-hubs.ts'
import { type Commands, Remote } from './ipc.ts'
import type { JobsCommands } from './jobs.ts'
import type { LoadCommands } from './load.ts'
import type { SinkCommands } from './sink.ts'
import type { SlowLinkCommands } from './slow-link.ts'

export const root = path.dirname(import.meta.dirname)

const startMsMax = 20_000
const stopMsMax = 15_000

export type JobsProgram = 'jobs-posthorn' | 'jobs-bullmq' | 'jobs-graphile' | 'jobs-pg-boss'

export type Target = Readonly<{
  title: string
  url: string
  pid: number
  dress?: Dress
  /** More processes that take events in and share the work with the first. */
  others?: readonly Readonly<{ url: string; pid: number }>[]
  /** The main process of the Postgres that it works on: all of its processes are charged to it. */
  postgres?: number
}>

/** Owns every process and folder of a run, and takes them away at its end, however it ends. */
export class Rig {
  readonly #folder: string
  readonly #children = new Set<ChildProcess>()
  readonly #onExit = () => this.#clearAtOnce()
  readonly #words = new Map<string, readonly string[]>()
  readonly #owned: string[] = []
  readonly #services: (() => Promise<void>)[] = []
  /** Where databases lie: it decides which disk is measured. */
  readonly parent: string
  #folders = 0

  constructor(parent: string) {
    this.parent = parent
    this.#folder = mkdtempSync(path.join(parent, 'posthorn-bench-'))
    process.on('exit', this.#onExit)
  }

  tempDir(): string {
    this.#folders += 1
    return mkdtempSync(path.join(this.#folder, `${this.#folders}-`))
  }

  /** Starts a process that `close` will end. */
  spawn(command: string, args: readonly string[], options: SpawnOptions): ChildProcess {
    return this.#own(spawn(command, args, options))
  }

  /** A folder of somebody else's that goes at the end too. */
  own(folder: string): void {
    this.#owned.push(folder)
  }

  /** `discard` runs when all processes have ended. */
  onClose(discard: () => Promise<void>): void {
    this.#services.push(discard)
  }

  /** `lines` goes on growing while the process talks; they are shown when a figure fails. */
  remember(title: string, lines: readonly string[]): void {
    this.#words.set(`${title} #${this.#words.size + 1}`, lines)
  }

  lastWords(): string {
    const spoken = [...this.#words].filter(([, lines]) => lines.length > 0)
    return spoken.map(([title, lines]) => `${title} said:\n${lines.join('\n')}`).join('\n')
  }

  async sink(): Promise<{ remote: Remote<SinkCommands>; url: string }> {
    const remote = await this.#fork<SinkCommands>('sink')
    return { remote, url: await remote.call('listen', null) }
  }

  load(): Promise<Remote<LoadCommands>> {
    return this.#fork<LoadCommands>('load')
  }

  async baseline(name: 'forwarder' | 'noop', sinkUrl: string): Promise<Target> {
    const remote = await this.#fork<BaselineCommands>(`baseline-${name}`)
    const url = await remote.call('listen', { sinkUrl })
    return { title: name, url, pid: remote.pid }
  }

  jobs(program: JobsProgram): Promise<Remote<JobsCommands>> {
    return this.#fork<JobsCommands>(program)
  }

  slowLink(): Promise<Remote<SlowLinkCommands>> {
    return this.#fork<SlowLinkCommands>('slow-link')
  }

  idleHubs(): Promise<Remote<IdleHubsCommands>> {
    return this.#fork<IdleHubsCommands>('idle-hubs')
  }

  webSockets(): Promise<Remote<WebSocketsCommands>> {
    return this.#fork<WebSocketsCommands>('baseline-websockets')
  }

  async #fork<C extends Commands>(name: string): Promise<Remote<C>> {
    const options = { serialization: 'advanced', stdio: ['ignore', 'inherit', 'inherit', 'ipc'] } as const
    const child = fork(path.join(import.meta.dirname, `${name}.ts`), [], { ...options, stdio: [...options.stdio] })
    const remote = new Remote<C>(this.#own(child), name)
    await remote.ready(startMsMax)
    return remote
  }

  /** Ends one process: asks first, then insists. Resolves when it is gone. */
  async stop(child: ChildProcess): Promise<void> {
    if (isGone(child)) return
    const gone = Promise.withResolvers<void>()
    child.once('exit', () => gone.resolve())
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax)
    await gone.promise
    clearTimeout(timer)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#children].map((child) => this.stop(child)))
    for (const discard of this.#services.splice(0)) await discard()
    this.#clearAtOnce()
    process.off('exit', this.#onExit)
  }

  #own(child: ChildProcess): ChildProcess {
    this.#children.add(child)
    child.once('exit', () => this.#children.delete(child))
    return child
  }

  #clearAtOnce(): void {
    for (const child of this.#children) if (!isGone(child)) child.kill('SIGKILL')
    for (const folder of [this.#folder, ...this.#owned]) {
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    }
  }
}

function isGone(child: ChildProcess): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null
}
