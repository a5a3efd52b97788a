import { type Bench, closedLoop, type Figure, interleaved, ratios, type TrialOptions } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import type { FigureResult, Verdict } from '../report.ts'
import { root } from '../rig.ts'
import { spreadOf } from '../statistics.ts'
import { throughput } from '../throughput.ts'

const connections = 64

function load({ quick }: Bench): TrialOptions {
  return { events: quick ? 5_000 : 20_000, connections, loop: closedLoop, delivered: true }
}

async function start(bench: Bench, title: string, checkout: string): Promise<Posthorn> {
  const { rig } = bench
  return toSink(bench, await Posthorn.start(rig, { folder: rig.tempDir(), title, checkout }))
}

/** The server, with the sink as the endpoint of all that comes. */
export async function toSink({ sink }: Bench, posthorn: Posthorn): Promise<Posthorn> {
  await posthorn.createEndpoint({ url: sink.url, types: ['bench.event'], concurrency: connections })
  return posthorn
}

/** Events per CPU second, from their POST to their arrival at the sink, against a forwarder that keeps nothing. */
export async function againstForwarder(
  bench: Bench,
  posthorn: Posthorn,
  limits: Pick<Verdict, 'must' | 'goal'>,
): Promise<Omit<FigureResult, 'notes'>> {
  const forwarder = await bench.rig.baseline('forwarder', bench.sink.url)
  const pairs = await interleaved(bench, [posthorn, forwarder], bench.quick ? 2 : 5, load(bench))
  const { median } = spreadOf(ratios(pairs, (trial) => trial.perCpuS))
  const what = `events per CPU second, ${posthorn.title} / forwarder, median of pairs`
  return { ...comparison(pairs), verdicts: [{ what, value: median, wanted: 'at least', ...limits, unit: '' }] }
}

const versus = throughput({
  start,
  load,
  latency: { what: 'arrival p99', better: 'less', of: ({ arrivalMs }) => arrivalMs?.p99 ?? Number.NaN },
})

/** Figure 1: from an event's POST to its arrival at a sink, kept on disk on the way. */
export const endToEnd: Figure = {
  name: 'end-to-end',
  title: 'end to end, durable, accepted over HTTP → delivered to a loopback sink, against a no-store forwarder',
  versus,
  async measure(bench) {
    const posthorn = await start(bench, 'posthorn', root)
    return {
      ...(await againstForwarder(bench, posthorn, { must: 0.5, goal: 0.75 })),
      notes: ['Peers measured the same way (research, November 2026): Outpost 0.066, Svix 0.046, Convoy 0.011.'],
    }
  },
}
