import type { CommittedOffset, KafkaConsumer } from '../kafka/driver.ts'
import { KafkaError } from '../kafka/kafka-error.ts'
import type { Logger } from '../log.ts'
import type { PartitionWork } from './partition-work.ts'

/** Commits what is done, one commit at a time. */
export class Commits {
  readonly #log: Logger
  #underway: Promise<void> = Promise.resolve()
  #waiting = 0
  #count = 0
  #problem: string | null = null

  constructor(log: Logger) {
    this.#log = log
  }

  /** Commits that the broker has confirmed. */
  get count(): number {
    return this.#count
  }

  /** One is under way: another now would only wait for it. */
  get isBusy(): boolean {
    return this.#waiting > 0
  }

  /** Why the last commit failed; null: it did not. */
  get problem(): string | null {
    return this.#problem
  }

  /** Resolves when what is done by now is committed, or could not be. Never rejects: the next commit contains this one. */
  commit(kafka: Pick<KafkaConsumer, 'commit'>, partitions: readonly PartitionWork[]): Promise<void> {
    this.#waiting += 1
    const turn = this.#underway.then(() => this.#commitNow(kafka, partitions))
    this.#underway = turn.finally(() => {
      this.#waiting -= 1
    })
    return turn
  }

  async #commitNow(kafka: Pick<KafkaConsumer, 'commit'>, partitions: readonly PartitionWork[]): Promise<void> {
    const wanted = partitions.flatMap((partition) => {
      const { uncommitted } = partition
      return uncommitted === null ? [] : [{ partition, offset: uncommitted }]
    })
    if (wanted.length === 0) return
    try {
      await this.#send(
        kafka,
        wanted.map(({ offset }) => offset),
      )
      for (const { partition, offset } of wanted) partition.noteCommitted(offset)
      this.#count += 1
      this.#problem = null
    } catch (err) {
      // The group reports a lost partition itself. Its next owner repeats what is not committed.
      const isLost = err instanceof KafkaError && err.kind === 'lost'
      if (isLost) return
      if (this.#problem === null)
        this.#log.warn({ err, offsets: wanted.map(({ offset }) => offset) }, 'consumer.not_committed')
      this.#problem = err instanceof Error ? err.message : String(err)
    }
  }

  /** A broker may take less metadata than others: without it, a restart repeats more. */
  async #send(kafka: Pick<KafkaConsumer, 'commit'>, offsets: readonly CommittedOffset[]): Promise<void> {
    try {
      await kafka.commit(offsets)
    } catch (error) {
      if (!(error instanceof KafkaError && error.kind === 'too_large')) throw error
      await kafka.commit(offsets.map((offset) => ({ ...offset, metadata: '' })))
    }
  }
}
