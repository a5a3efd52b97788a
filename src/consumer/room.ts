import type { KafkaConsumer, Partition } from '../kafka/driver.ts'
import type { PartitionWork } from './partition-work.ts'
import type { RecordWork } from './record-work.ts'

/** Partitions go on when so much of the room is free again. */
const resumeBelow = 0.7

export type RoomLimits = Readonly<{ recordsMax: number; recordBytesMax: number }>

/** Bounds what is in memory: beyond it, partitions bring nothing until there is room again. */
export class Room {
  readonly #limits: RoomLimits
  readonly #paused = new Set<PartitionWork>()
  #records = 0
  #bytes = 0
  #isFull = false

  constructor(limits: RoomLimits) {
    this.#limits = limits
  }

  add({ bytes }: RecordWork): void {
    this.#records += 1
    this.#bytes += bytes
  }

  remove({ bytes }: RecordWork): void {
    this.#records -= 1
    this.#bytes -= bytes
  }

  /** A partition that is assigned is not paused. */
  forget(partition: PartitionWork): void {
    this.#paused.delete(partition)
  }

  isPaused(partition: PartitionWork): boolean {
    return this.#paused.has(partition)
  }

  /** Pauses and resumes partitions as it is right now. */
  balance(kafka: Pick<KafkaConsumer, 'pause' | 'resume'>, partitions: Iterable<PartitionWork>): void {
    const { recordsMax, recordBytesMax } = this.#limits
    const used = Math.max(this.#records / recordsMax, this.#bytes / recordBytesMax)
    if (used >= 1) this.#isFull = true
    else if (used <= resumeBelow) this.#isFull = false
    const pausing: Partition[] = []
    const resuming: Partition[] = []
    for (const partition of partitions) {
      const shouldPause = this.#isFull || partition.isTooFarAhead
      if (shouldPause === this.#paused.has(partition)) continue
      if (shouldPause) this.#paused.add(partition)
      else this.#paused.delete(partition)
      ;(shouldPause ? pausing : resuming).push(partition)
    }
    if (pausing.length > 0) kafka.pause(pausing)
    if (resuming.length > 0) kafka.resume(resuming)
  }
}
