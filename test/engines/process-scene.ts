import type { TestContext } from 'node:test'
import type { Run, Task } from '../../src/engines/engine.ts'
import { ProcessEngine, type ProcessEngineSettings } from '../../src/engines/process-engine.ts'
import type { Logger } from '../../src/log.ts'
import { t0 } from '../support/builders.ts'

export const never = new AbortController().signal
export const module = new URL('../support/rough-modules/handlers.ts', import.meta.url).href

export type Told = Readonly<Record<string, unknown>> & Readonly<{ msg: string }>

/** An engine with what it has logged; all its processes are gone when the test ends. */
export function processEngine(t: TestContext, given: Partial<ProcessEngineSettings> = {}) {
  const told: Told[] = []
  const tell = (facts: object, msg: string) => void told.push({ ...facts, msg })
  const engine = new ProcessEngine({
    name: 'orders',
    log: { level: 'info', info: tell, warn: tell } as unknown as Logger,
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
