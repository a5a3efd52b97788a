import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import type { Run, Task } from '../../src/engines/engine.ts'
import { ProcessEngine, type ProcessEngineSettings } from '../../src/engines/process-engine.ts'
import type { Logger } from '../../src/log.ts'
import { t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'
import { type Answer, openScriptedEndpoint } from '../support/scripted-endpoint.ts'

export const never = new AbortController().signal
export const module = new URL('../support/rough-modules/handlers.ts', import.meta.url).href

export type Told = Readonly<Record<string, unknown>> & Readonly<{ msg: string }>

/** What an engine logs. */
export class Telling {
  readonly lines: Told[] = []
  readonly #news = new EventEmitter()
  /** Is called in the middle of it. */
  onTold: (line: Told) => void = () => {}

  readonly log = {
    level: 'info',
    info: (facts: object, msg: string) => this.#tell(facts, msg),
    warn: (facts: object, msg: string) => this.#tell(facts, msg),
  } as unknown as Logger

  of(msg: string): readonly Told[] {
    return this.lines.filter((line) => line.msg === msg)
  }

  /** The pids of the workers that have been started, in their order. */
  get pids(): readonly number[] {
    return this.of('worker.started').map(({ pid }) => Number(pid))
  }

  async until(msg: string, count = 1): Promise<readonly Told[]> {
    while (this.of(msg).length < count) await once(this.#news, 'told')
    return this.of(msg)
  }

  #tell(facts: object, msg: string): void {
    const line = { ...facts, msg }
    this.lines.push(line)
    this.onTold(line)
    this.#news.emit('told')
  }
}

/** An engine with what it logs; all its processes are gone when the test ends. */
export function processEngine(t: TestContext, given: Partial<ProcessEngineSettings> = {}) {
  const told = new Telling()
  const engine = new ProcessEngine({
    name: 'orders',
    log: told.log,
    env: process.env,
    execArgv: process.execArgv,
    workersMax: 2,
    limits: { loadMs: 60_000, graceMs: 60_000 },
    ...given,
  })
  t.after(() => engine.stop())
  return { engine, told }
}

/** A run of one of the rough handlers, which gets `data`. */
export function aTask(name: string, data: unknown = {}, given: Partial<Task> = {}): Task {
  return {
    name: 'orders',
    code: { module, export: name },
    event: {
      id: 'evt_1',
      type: 'order.created',
      key: null,
      tenant: 'acme',
      contentType: 'application/json',
      headers: {},
      receivedAt: t0,
    },
    bytes: new TextEncoder().encode(JSON.stringify(data)),
    attempt: 1,
    ref: 'dlv_1',
    timeoutMs: 60_000,
    ...given,
  }
}

export function textOf(run: Run): string {
  if (run.kind === 'threw') return run.thrown.message
  return run.kind === 'died' ? JSON.stringify(run.death) : run.kind
}

/** A process that has ended and that nobody has reaped is gone, too. */
export function isThere(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

export function untilGone(pid: number): Promise<true> {
  return eventually(`process ${pid} ends`, async () => (isThere(pid) ? null : true))
}

/** Blocks our own event loop. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Where handlers report to. Each waits there until it is let go. */
export async function openReports(t: TestContext) {
  const { promise: released, resolve: release } = Promise.withResolvers<Answer>()
  const reports = await openScriptedEndpoint(() => released)
  t.after(() => reports.close())
  const next = async () => (await reports.next()).body.toString()
  return { to: reports.url, next, count: () => reports.received.length, release: () => release({}) }
}
