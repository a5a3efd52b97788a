import { metadataBytesMax } from '../../core/offset-metadata.ts'
import type { CommittedOffset } from '../driver.ts'
import { KafkaError } from '../kafka-error.ts'
import type { NativeError, NativePartition } from './native.ts'
import { kafkaError, thrown } from './problems.ts'

const what = 'The offsets could not be committed'

/**
 * Commits one at a time: the client tells the broker's answer to a commit without saying to which. Its calls that seem
 * to wait for a commit do not wait for the broker, or block the event loop.
 */
export class Commits {
  readonly #commit: (offsets: readonly NativePartition[]) => void
  #last: Promise<void> = Promise.resolve()
  #settle: ((error: KafkaError | null) => void) | null = null
  #isClosed = false

  constructor(commit: (offsets: readonly NativePartition[]) => void) {
    this.#commit = commit
  }

  /** `mayCommit` is asked when its turn has come. */
  commit(offsets: readonly CommittedOffset[], mayCommit: () => KafkaError | null): Promise<void> {
    if (offsets.length === 0) return Promise.resolve()
    const committed = this.#last.then(() => {
      const problem = this.#isClosed ? new KafkaError('closed', `${what}: the consumer is closed.`) : mayCommit()
      if (problem !== null) throw problem
      return this.#confirmed(offsets)
    })
    this.#last = committed.catch(() => {})
    return committed
  }

  /** The broker's answer, as the client's `offset_commit_cb` brings it. */
  answered(error: NativeError | null | undefined): void {
    this.#settle?.(error ? kafkaError(what, error) : null)
  }

  close(): void {
    this.#isClosed = true
    this.#settle?.(new KafkaError('closed', `${what}: the consumer was closed before the broker answered.`))
  }

  #confirmed(offsets: readonly CommittedOffset[]): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#settle = (error) => {
      this.#settle = null
      if (error === null) resolve()
      else reject(error)
    }
    try {
      this.#commit(offsets.map(nativeOffset))
    } catch (error) {
      this.#settle(thrown(what, error))
    }
    return promise
  }
}

/** What is wrong with the metadata; null: nothing. */
export function metadataProblem(offsets: readonly CommittedOffset[]): KafkaError | null {
  for (const { topic, partition, metadata } of offsets) {
    const bytes = Buffer.byteLength(metadata)
    if (bytes <= metadataBytesMax) continue
    const sizes = `${bytes} bytes, more than the ${metadataBytesMax} that brokers keep`
    return new KafkaError('too_large', `${what}: the metadata for ${topic}[${partition}] has ${sizes}.`)
  }
  return null
}

function nativeOffset({ topic, partition, offset, metadata, leaderEpoch }: CommittedOffset): NativePartition {
  const epoch = leaderEpoch === null || leaderEpoch === undefined ? {} : { leaderEpoch }
  return { topic, partition, offset, metadata, ...epoch }
}
