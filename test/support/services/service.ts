import { Buffer } from 'node:buffer'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Account, as } from './account.ts'

const startMsMax = 60_000
const stopMsMax = 20_000
const everyMs = 25
const logLinesShown = 30

/**
 * Becomes the server. What it leaves behind waits for the end of standard input, which comes when whoever started the
 * server is gone, even by kill -9, and then ends the server.
 */
const supervised = `( ( read -r _ <&3; kill -"$0" $$ ) >/dev/null 2>&1 & ) 3<&0; exec "$@" </dev/null`

export type ServiceSpec = Readonly<{
  name: string
  url: string
  port: number
  command: string
  args: readonly string[]
  env?: NodeJS.ProcessEnv
  /** Its working folder, with its data and its log. It goes with `discard`. */
  folder: string
  account: Account | null
  /** Whether it does its work; throws, or answers false, until it does. */
  answers: () => Promise<boolean>
  /** Ends it in order, keeping what it has. */
  stopSignal: NodeJS.Signals
  /** Ends it at once. */
  quitSignal: NodeJS.Signals
  /** What it says when it cannot start yet, because an earlier one has not gone completely. */
  notYet?: RegExp
}>

/** A real server for tests: one on its own port, with its own data, which can be stopped, killed and started again. */
export class Service {
  readonly #spec: ServiceSpec
  #child: ChildProcess | null = null
  #ended: Promise<void> = Promise.resolve()
  #logStart = 0

  private constructor(spec: ServiceSpec) {
    this.#spec = spec
  }

  /** Resolves when it answers. One that does not start leaves nothing behind. */
  static async open(spec: ServiceSpec): Promise<Service> {
    const service = new Service(spec)
    try {
      await service.start()
      return service
    } catch (error) {
      await service.discard()
      throw error
    }
  }

  get url(): string {
    return this.#spec.url
  }

  get port(): number {
    return this.#spec.port
  }

  get folder(): string {
    return this.#spec.folder
  }

  /** Of the server's main process; throws when it does not run. */
  get pid(): number {
    const pid = this.#child?.pid
    if (pid === undefined) throw new Error(`${this.#spec.name} is not running`)
    return pid
  }

  /** Resolves when it answers. */
  async start(): Promise<void> {
    const giveUpAt = performance.now() + startMsMax
    if (this.#child === null) this.#spawn()
    let problem: unknown = await this.#problem()
    while (problem !== null) {
      const hasEnded = this.#child === null
      const mayTryAgain = performance.now() < giveUpAt && (!hasEnded || this.#spec.notYet?.test(this.#lastLines()))
      if (!mayTryAgain) {
        await this.#end(this.#spec.quitSignal)
        throw new Error(`${this.#spec.name} did not start:\n${this.#lastLines()}`, { cause: problem })
      }
      await sleep(everyMs)
      if (hasEnded) this.#spawn()
      problem = await this.#problem()
    }
  }

  /** Ends it in order. Its port and its data stay, for `start` or `restart`. */
  stop(): Promise<void> {
    return this.#end(this.#spec.stopSignal)
  }

  /** kill -9 of all its processes, as when a container or a machine dies. */
  async kill(): Promise<void> {
    const pid = this.#child?.pid
    if (pid === undefined) return
    // So that it starts no more of them.
    process.kill(pid, 'SIGSTOP')
    for (const child of childrenOf(pid)) process.kill(child, 'SIGKILL')
    await this.#end('SIGKILL')
  }

  async restart(): Promise<void> {
    await this.stop()
    await this.start()
  }

  /** To its main process alone, such as SIGSTOP, SIGCONT, SIGHUP or SIGKILL. */
  signal(name: NodeJS.Signals): void {
    process.kill(this.pid, name)
  }

  /** Everything it has logged. */
  log(): string {
    return existsSync(this.#logFile()) ? readFileSync(this.#logFile(), 'utf8') : ''
  }

  /** Ends it at once and deletes its data. */
  async discard(): Promise<void> {
    await this.#end(this.#spec.quitSignal)
    rmSync(this.#spec.folder, { recursive: true, force: true, maxRetries: 10 })
  }

  /** null: it answers. */
  async #problem(): Promise<unknown> {
    try {
      return (await this.#spec.answers()) ? null : 'it is not ready'
    } catch (error) {
      return error
    }
  }

  #spawn(): void {
    const { command, args, env, folder, account, quitSignal } = this.#spec
    const log = openSync(this.#logFile(), 'a')
    const child = spawn('sh', ['-c', supervised, quitSignal.replace(/^SIG/, ''), command, ...args], {
      cwd: folder,
      stdio: ['pipe', log, log],
      env: { ...process.env, ...env },
      // Ctrl-C in a terminal is for the runner, which ends the server when the tests have ended.
      detached: true,
      ...as(account),
    })
    this.#logStart = fstatSync(log).size
    closeSync(log)
    this.#child = child
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#ended = promise
    const forget = () => {
      if (this.#child === child) this.#child = null
      resolve()
    }
    child.once('exit', forget)
    child.once('error', forget)
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    // One that was stopped by a signal would not hear of another.
    if (child !== null && signal !== 'SIGKILL') child.kill('SIGCONT')
    child?.kill(signal)
    const lastResort = setTimeout(() => child?.kill('SIGKILL'), stopMsMax)
    await this.#ended
    clearTimeout(lastResort)
  }

  #logFile(): string {
    return path.join(this.#spec.folder, 'log')
  }

  /** Since it was started. */
  #lastLines(): string {
    const lines = Buffer.from(this.log()).subarray(this.#logStart).toString().trimEnd().split('\n')
    return lines.slice(-logLinesShown).join('\n')
  }
}

function childrenOf(pid: number): readonly number[] {
  if (process.platform !== 'linux') {
    const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
    return stdout.split('\n').filter(Boolean).map(Number)
  }
  const all = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return all.filter((child) => parentOf(child) === pid)
}

/** null: it has ended. */
function parentOf(pid: number): number | null {
  try {
    // `pid (name) state parent …`, and a name may hold anything.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return null
  }
}
