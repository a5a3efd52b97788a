import type { Endpoint } from '../../core/endpoint.ts'
import { laneOf } from '../../core/lanes.ts'
import type { Report } from '../../core/outcome.ts'
import type { Code, Engine } from '../../engines/engine.ts'
import { reportOf, settledOrTime } from '../../engines/run-report.ts'
import type { Parcel, Transport } from '../transport.ts'
import { taskOf } from './task.ts'

/** The code of a handler, by the name that it is registered by, and the engine that runs it. */
export type HandlerCode = Readonly<{ name: string; code: Code; engine: Engine }>

const nobody: Report = { kind: 'interrupted', message: 'no code has registered itself for this handler' }
const afterClose: Report = { kind: 'interrupted', message: 'the transport is closed' }

/** Delivers to code in this process. An endpoint whose code is not registered is held. */
export class HandlerTransport implements Transport {
  readonly kind = 'handler'
  readonly #codes = new Map<string, HandlerCode>()
  readonly #listeners = new Set<(endpointId: string) => void>()
  readonly #underway = new Set<Promise<Report>>()
  #isClosed = false

  serves(endpoint: Endpoint): boolean {
    return this.#codes.has(endpoint.id)
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#listeners.add(listener)
  }

  /** From now on this code takes the endpoint's deliveries; what runs goes on with the code that it began with. */
  register(endpointId: string, code: HandlerCode): void {
    this.#codes.set(endpointId, code)
    this.#tell(endpointId)
  }

  /** Only if it is still this code that is registered. */
  unregister(endpointId: string, code: HandlerCode): void {
    if (this.#codes.get(endpointId) !== code) return
    this.#codes.delete(endpointId)
    this.#tell(endpointId)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    if (this.#isClosed) return Promise.resolve(afterClose)
    const code = this.#codes.get(parcel.endpoint.id)
    if (code === undefined) return Promise.resolve(nobody)
    const report = this.#run(code, parcel, signal)
    this.#underway.add(report)
    const ended = (): void => {
      this.#underway.delete(report)
    }
    report.then(ended, ended)
    return report
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#underway)
  }

  async #run({ name, code, engine }: HandlerCode, parcel: Parcel, signal: AbortSignal): Promise<Report> {
    const { event, endpoint } = parcel
    const { timeoutMs } = endpoint
    const run = await engine.run(taskOf(name, code, parcel), signal)
    // While the old run goes on, neither its retry nor the next of its lane may begin: the try is not over yet.
    if (run.kind === 'overran' && laneOf(endpoint.ordering, event.key) !== null) {
      await settledOrTime(run.settled, timeoutMs, signal)
    }
    return reportOf(run, timeoutMs)
  }

  #tell(endpointId: string): void {
    for (const listener of this.#listeners) listener(endpointId)
  }
}
