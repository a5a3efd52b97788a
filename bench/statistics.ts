/** What is said of a set of measurements: never a mean alone, always how far they spread. */
export type Spread = Readonly<{ median: number; low: number; high: number; min: number; max: number; count: number }>

export type Latency = Readonly<{ p50: number; p95: number; p99: number; max: number; count: number }>

/** `low` and `high` are the quartiles. */
export function spreadOf(values: Iterable<number>): Spread {
  const sorted = ascending(values)
  return {
    median: quantile(sorted, 0.5),
    low: quantile(sorted, 0.25),
    high: quantile(sorted, 0.75),
    min: sorted.at(0) ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  }
}

export function latencyOf(values: Iterable<number>): Latency {
  const sorted = ascending(values)
  return {
    p50: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
    p99: quantile(sorted, 0.99),
    max: sorted.at(-1) ?? Number.NaN,
    count: sorted.length,
  }
}

export function median(values: Iterable<number>): number {
  return quantile(ascending(values), 0.5)
}

/** Between two measurements the value is interpolated; of none it is NaN, which no threshold passes. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return Number.NaN
  const at = (sorted.length - 1) * share
  const below = sorted[Math.floor(at)] ?? Number.NaN
  const above = sorted[Math.ceil(at)] ?? Number.NaN
  return below + (above - below) * (at - Math.floor(at))
}

function ascending(values: Iterable<number>): Float64Array {
  return Float64Array.from(values).sort()
}
