import type { ConsumerOrdering } from '../core/consumer.ts'
import type { CommittedOffset, Partition } from '../kafka/driver.ts'
import { PartitionWork } from './partition-work.ts'

/** The partitions that are ours. */
export class Partitions {
  readonly #ordering: ConsumerOrdering
  readonly #byName = new Map<string, PartitionWork>()
  #epoch = 0

  constructor(ordering: ConsumerOrdering) {
    this.#ordering = ordering
  }

  [Symbol.iterator](): Iterator<PartitionWork> {
    return this.#byName.values()
  }

  /** A copy, for those who change them meanwhile. */
  get all(): readonly PartitionWork[] {
    return [...this.#byName.values()]
  }

  get(at: Partition): PartitionWork | undefined {
    return this.#byName.get(nameOf(at))
  }

  /** Those of them that are ours. */
  of(partitions: readonly Partition[]): readonly PartitionWork[] {
    return partitions.flatMap((at) => this.get(at) ?? [])
  }

  /** `committed`: what the group has committed, of these and others. */
  add(partitions: readonly Partition[], committed: readonly CommittedOffset[]): void {
    for (const at of partitions) {
      this.#epoch += 1
      const known = committed.find((one) => nameOf(one) === nameOf(at)) ?? null
      this.#byName.set(nameOf(at), new PartitionWork(at, this.#epoch, this.#ordering, known))
    }
  }

  remove(partition: PartitionWork): void {
    this.#byName.delete(nameOf(partition))
    partition.leave()
  }
}

function nameOf({ topic, partition }: Partition): string {
  return `${topic} ${partition}`
}
