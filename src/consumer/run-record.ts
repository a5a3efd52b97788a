import type { Clock } from '../core/clock.ts'
import type { ConsumerOrdering } from '../core/consumer.ts'
import { classify } from '../core/failure-classifier.ts'
import type { Code, Engine } from '../engines/engine.ts'
import { reportOf, settledOrTime } from '../engines/run-report.ts'
import type { RunRecord } from './consumer-parts.ts'

export type RecordCode = Readonly<{
  consumer: string
  code: Code
  engine: Engine
  timeoutMs: number
  ordering: ConsumerOrdering
  clock: Clock
}>

const nothing = new Uint8Array()

/** Runs the handler of a consumer, one attempt at a time, through its engine. */
export function runThrough({ consumer, code, engine, timeoutMs, ordering, clock }: RecordCode): RunRecord {
  return async (work, signal) => {
    const { topic, partition, offset, key, value, headers, timestamp } = work.record
    const startedAt = clock.wall()
    const begun = clock.steady()
    const run = await engine.run(
      {
        name: consumer,
        code,
        record: { topic, partition, offset, key, headers, timestamp, isTombstone: value === null },
        bytes: value ?? nothing,
        attempt: work.attempts,
        ref: `${topic}/${partition}@${offset}`,
        timeoutMs,
      },
      signal,
    )
    // While the old run goes on, neither its retry nor the next of its lane may begin.
    if (run.kind === 'overran' && ordering !== 'none') await settledOrTime(run.settled, timeoutMs, signal)
    const report = reportOf(run, timeoutMs)
    const outcome = classify(report, {}, clock.wall())
    if (outcome.kind === 'delivered') return { outcome, failure: null }
    const { errorClass = null, dependency = null, stack = null } = report.kind === 'thrown' ? report : {}
    const tookMs = Math.round(clock.steady() - begun)
    return { outcome, failure: { error: outcome.error, errorClass, dependency, stack, startedAt, tookMs } }
  }
}
