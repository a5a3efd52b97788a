import { Counter, Histogram, type Registry } from 'prom-client'

/** Counts by name without making a label object for every call; the counter is told when somebody looks. */
export class Tally {
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

/** Each label with every value that it can have. */
export type KnownLabels = Readonly<Record<string, readonly string[]>>

/**
 * Several labels are one name with spaces between their values. Every combination is shown from the start, as 0: of a
 * series that begins with its first burst, `increase()` sees nothing.
 */
export function tallied(register: Registry, name: string, help: string, known: KnownLabels = {}): Tally {
  const tally = new Tally()
  const labels = Object.keys(known)
  const counter = new Counter({
    name,
    help,
    labelNames: labels,
    registers: [register],
    collect() {
      for (const [values, count] of tally.take()) this.inc(labelled(labels, values), count)
    },
  })
  for (const values of combinations(Object.values(known))) counter.inc(labelled(labels, values.join(' ')), 0)
  return tally
}

function combinations(lists: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const [first, ...rest] = lists
  if (first === undefined) return [[]]
  const others = combinations(rest)
  return first.flatMap((value) => others.map((other) => [value, ...other]))
}

function labelled(labels: readonly string[], values: string): Record<string, string> {
  if (labels.length === 0) return {}
  const parts = values.split(' ')
  return Object.fromEntries(labels.map((label, index) => [label, parts[index] ?? '']))
}

/** Observes milliseconds and shows seconds. */
export function timed(
  register: Registry,
  name: string,
  help: string,
  buckets: readonly number[],
): (ms: number) => void {
  const histogram = new Histogram({ name, help, buckets: [...buckets], registers: [register] })
  return (ms) => histogram.observe(ms / 1_000)
}
