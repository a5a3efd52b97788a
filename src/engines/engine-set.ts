import type { Logger } from '../log.ts'
import { AsyncEngine } from './async-engine.ts'
import type { Engine, Engines, OwnEngine } from './engine.ts'
import { LateRuns } from './late-runs.ts'
import { ProcessEngine } from './process-engine.ts'
import { Watchdog } from './watchdog.ts'

export type EngineSetParts = Readonly<{
  log: Logger
  /** What workers find as their environment. */
  env: NodeJS.ProcessEnv
}>

/** All engines of this process. */
export class EngineSet implements Engines {
  readonly async: Engine
  readonly #parts: EngineSetParts
  readonly #opened = new Set<ProcessEngine>()

  constructor(parts: EngineSetParts) {
    const { log } = parts
    this.#parts = parts
    this.async = new AsyncEngine({ watchdog: new Watchdog({ log }), lateRuns: new LateRuns(log) })
  }

  openProcesses(name: string, workers: number): OwnEngine {
    const { log, env } = this.#parts
    const engine = new ProcessEngine({ name, log, env, execArgv: process.execArgv, workersMax: workers })
    this.#opened.add(engine)
    engine.ended.then(() => this.#opened.delete(engine))
    return engine
  }

  /** May be called twice and never throws. */
  async stop(): Promise<void> {
    await Promise.all([this.async, ...this.#opened].map((engine) => engine.stop()))
  }
}
