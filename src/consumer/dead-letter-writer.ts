import type { Clock } from '../core/clock.ts'
import type { ConsumerSettings } from '../core/consumer.ts'
import type { Reason } from '../core/outcome.ts'
import { delayAfter } from '../core/retry-policy.ts'
import type { Logger } from '../log.ts'
import { rest } from '../store/pace.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { RecordFailure, RecordWork } from './record-work.ts'

export type DeadLetterWriterParts = Readonly<{
  settings: ConsumerSettings
  deadLetters: DeadLetters
  clock: Clock
  log: Logger
  random: () => number
}>

/** Whatever the policy says: what fails at once would fail without end. */
const waitMsMin = 100
const blockedAfterDefault = 3

/** Writes dead letters until they are acknowledged, with the waits of the retry policy. */
export class DeadLetterWriter {
  readonly #parts: DeadLetterWriterParts

  constructor(parts: DeadLetterWriterParts) {
    this.#parts = parts
  }

  /**
   * Resolves when it is kept; false: the record is no longer this process's, or a person has skipped it. When it has failed as
   * often as the policy allows, its partition is blocked until it succeeds. Never rejects.
   */
  async write(work: RecordWork, reason: Reason, failure: RecordFailure): Promise<boolean> {
    const { settings, deadLetters, clock, log, random } = this.#parts
    const { partition, record, attempts } = work
    const { name: consumer, group, retry } = settings
    const blockedAfter = retry.maxAttempts ?? blockedAfterDefault
    const letter = {
      consumer,
      group,
      record,
      reason,
      failure,
      attempts,
      epoch: partition.epoch,
      failedAt: clock.wall(),
    }
    for (let tries = 1; partition.isOpen && work.state === 'writing'; tries++) {
      try {
        await deadLetters.put(letter)
        log.error({ consumer, ...work.coordinates, reason, attempts, ...failure }, 'record.dead_letter')
        return true
      } catch (err) {
        if (tries === blockedAfter) {
          partition.block(record.offset, err instanceof Error ? err.message : String(err))
          log.error({ err, consumer, ...work.coordinates }, 'consumer.blocked')
        }
        await rest(Math.max(waitMsMin, delayAfter(retry, tries, random())), partition.closing)
      }
    }
    return false
  }
}
