import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { Notice } from '../core/notice.ts'
import type { Notices } from '../notices.ts'

/** Numbers about what has happened: every notice is a few additions. */
export interface Metrics {
  /** Values that are read when somebody looks. */
  watch(gauges: WatchedGauges): void
  page(): Promise<string>
  readonly contentType: string
}

export type WatchedGauges = Readonly<{
  inFlight: () => number
  queued: () => number
  intakeWaitingBytes: () => number
  storeWritable: () => boolean
}>

const attemptSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const endToEndSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 3_600, 86_400]

export function openMetrics(notices: Notices): Metrics {
  const register = new Registry()
  const registers = [register]
  collectDefaultMetrics({ register })
  const accepted = new Tally()
  const attempts = new Tally()
  const settled = new Tally()
  counter(registers, 'posthorn_events_accepted_total', 'Events that are on disk.', accepted, null)
  counter(registers, 'posthorn_attempts_total', 'Tries, by what they meant.', attempts, 'outcome')
  counter(registers, 'posthorn_deliveries_settled_total', 'Deliveries that ended, by status.', settled, 'status')
  const took = new Histogram({
    name: 'posthorn_attempt_seconds',
    help: 'How long tries took.',
    buckets: attemptSeconds,
    registers,
  })
  const endToEnd = new Histogram({
    name: 'posthorn_end_to_end_seconds',
    help: 'From the arrival of an event to the end of a delivery.',
    buckets: endToEndSeconds,
    registers,
  })
  const count = (notice: Notice): void => {
    switch (notice.kind) {
      case 'event.accepted':
        accepted.add('', 1)
        return
      case 'attempt.settled':
        attempts.add(notice.outcome, 1)
        took.observe(notice.tookMs / 1_000)
        if (notice.endToEndMs === null) return
        settled.add(notice.status, 1)
        endToEnd.observe(notice.endToEndMs / 1_000)
        return
      case 'delivery.ended':
        settled.add(notice.status, 1)
        return
      case 'breaker.changed':
      case 'endpoint.changed':
      case 'lane.stuck':
      case 'replay.changed':
        return
    }
  }
  notices.subscribe(count)
  return {
    contentType: register.contentType,
    watch: (gauges) => watch(registers, gauges),
    page: () => register.metrics(),
  }
}

/** Counts by name without making a label object for every call; the counter is told when somebody looks. */
class Tally {
  readonly #counts = new Map<string, number>()

  add(name: string, count: number): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + count)
  }

  /** What came since the last time. */
  take(): [string, number][] {
    const taken = [...this.#counts]
    this.#counts.clear()
    return taken
  }
}

function counter(registers: Registry[], name: string, help: string, tally: Tally, label: string | null): void {
  new Counter({
    name,
    help,
    labelNames: label === null ? [] : [label],
    registers,
    collect() {
      for (const [value, count] of tally.take()) this.inc(label === null ? {} : { [label]: value }, count)
    },
  })
}

function watch(registers: Registry[], gauges: WatchedGauges): void {
  const rows: readonly (readonly [name: string, help: string, read: () => number])[] = [
    ['posthorn_attempts_in_flight', 'Tries under way.', gauges.inFlight],
    ['posthorn_deliveries_in_memory', 'Deliveries that wait in memory for a slot.', gauges.queued],
    ['posthorn_intake_waiting_bytes', 'Events that wait for the disk.', gauges.intakeWaitingBytes],
    ['posthorn_store_writable', '1 while the store keeps what is written.', () => Number(gauges.storeWritable())],
  ]
  for (const [name, help, read] of rows) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  }
}
