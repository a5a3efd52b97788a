import type { Versus } from './against.ts'
import { type Bench, type TrialOptions, trial } from './bench.ts'
import type { Posthorn } from './posthorn.ts'

export type Throughput = Readonly<{
  start: (bench: Bench, title: string, checkout: string) => Promise<Posthorn>
  load: (bench: Bench) => TrialOptions
  /** What is measured besides how many events there were. */
  latency: Versus['measures'][number]
}>

/** Two versions under the same load: how many events, and how long one took. */
export function throughput({ start, load, latency }: Throughput): Versus {
  return {
    prepare:
      async (bench, { title, root }) =>
      () =>
        start(bench, title, root),
    warmUp: (bench, server) => trial(bench, server, load(bench)),
    run: (bench, server) => trial(bench, server, load(bench)),
    measures: [
      { what: 'events per CPU second', better: 'more', of: ({ perCpuS }) => perCpuS },
      { what: 'events per second', better: 'more', of: ({ perWallS }) => perWallS },
      latency,
    ],
  }
}
