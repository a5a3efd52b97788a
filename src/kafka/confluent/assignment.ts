import type { Partition } from '../driver.ts'

/**
 *   coming   the owner gets ready for it
 *   serving  its records are to be had
 *   leaving  the owner is done with it, but for a last commit
 */
type State = 'coming' | 'serving' | 'leaving'

/** Which partitions are ours, and which of them are paused. */
export class Assignment {
  readonly #states = new Map<string, State>()
  readonly #paused = new Set<string>()

  get isEmpty(): boolean {
    return this.#states.size === 0
  }

  stateOf(partition: Partition): State | null {
    return this.#states.get(nameOf(partition)) ?? null
  }

  isPaused(partition: Partition): boolean {
    return this.#paused.has(nameOf(partition))
  }

  set(partitions: readonly Partition[], state: State): void {
    for (const partition of partitions) this.#states.set(nameOf(partition), state)
  }

  remove(partitions: readonly Partition[]): void {
    for (const partition of partitions) {
      this.#states.delete(nameOf(partition))
      this.#paused.delete(nameOf(partition))
    }
  }

  /** Answers which of them are serving: the client is told of those now, and of those that are coming when they have come. */
  pause(partitions: readonly Partition[]): readonly Partition[] {
    for (const partition of partitions) if (this.stateOf(partition) !== null) this.#paused.add(nameOf(partition))
    return this.#serving(partitions)
  }

  resume(partitions: readonly Partition[]): readonly Partition[] {
    for (const partition of partitions) this.#paused.delete(nameOf(partition))
    return this.#serving(partitions)
  }

  #serving(partitions: readonly Partition[]): readonly Partition[] {
    return partitions.filter((partition) => this.stateOf(partition) === 'serving')
  }
}

/** Topics have no brackets in their names. */
export function nameOf({ topic, partition }: Partition): string {
  return `${topic}[${partition}]`
}
