import type { Dependencies } from './dependencies.ts'
import type { RecordWork } from './record-work.ts'

export interface ParkedListener {
  /** Whether an attempt may begin now. */
  readonly mayStart: boolean
  /** What this one waited for is there again. */
  unparked(work: RecordWork): void
  /** It is tried to see whether that is there again. */
  probe(work: RecordWork, dependency: string): void
}

/** Records that wait for something that is down. They hold their lanes, and nothing of their budget is spent. */
export class ParkedRecords {
  readonly #dependencies: Dependencies
  readonly #listener: ParkedListener
  readonly #byDependency = new Map<string, Set<RecordWork>>()

  constructor(dependencies: Dependencies, listener: ParkedListener) {
    this.#dependencies = dependencies
    this.#listener = listener
  }

  add(work: RecordWork, dependency: string): void {
    const parked = this.#byDependency.get(dependency) ?? new Set()
    this.#byDependency.set(dependency, parked.add(work))
    work.state = 'parked'
  }

  remove(work: RecordWork): void {
    for (const parked of this.#byDependency.values()) parked.delete(work)
  }

  /** Lets go what need not wait any longer, and begins the probes whose time has come. Never rejects. */
  async check(): Promise<void> {
    await this.#dependencies.refresh()
    for (const [dependency, parked] of this.#byDependency) {
      for (const work of parked) if (!work.partition.isOpen) parked.delete(work)
      const [first] = parked
      if (first === undefined) this.#byDependency.delete(dependency)
      else if (!this.#dependencies.isOpen(dependency)) this.release(dependency)
      else if (this.#listener.mayStart && (await this.#dependencies.mayProbe(dependency))) {
        // It may have been skipped, released or revoked meanwhile.
        if (parked.delete(first) && first.partition.isOpen) this.#listener.probe(first, dependency)
        else await this.#dependencies.abandonProbe(dependency)
      }
    }
  }

  release(dependency: string): void {
    const parked = this.#byDependency.get(dependency)
    this.#byDependency.delete(dependency)
    for (const work of parked ?? []) this.#listener.unparked(work)
  }
}
