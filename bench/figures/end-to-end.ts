import { type Bench, closedLoop, type Figure, interleaved, ratios, type TrialOptions } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { root } from '../rig.ts'
import { spreadOf } from '../statistics.ts'
import { throughput } from '../throughput.ts'

const connections = 64

function load({ quick }: Bench): TrialOptions {
  return { events: quick ? 5_000 : 20_000, connections, loop: closedLoop, delivered: true }
}

async function start({ rig, sink }: Bench, title: string, checkout: string): Promise<Posthorn> {
  const posthorn = await Posthorn.start(rig, { folder: rig.tempDir(), title, checkout })
  await posthorn.createEndpoint({ url: sink.url, types: ['bench.event'], concurrency: connections })
  return posthorn
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
    const forwarder = await bench.rig.baseline('forwarder', bench.sink.url)
    const pairs = await interleaved(bench, [posthorn, forwarder], bench.quick ? 2 : 5, load(bench))
    const ratio = spreadOf(ratios(pairs, (trial) => trial.perCpuS))
    return {
      ...comparison(pairs),
      verdicts: [
        {
          what: 'events per CPU second, Posthorn / forwarder, median of pairs',
          value: ratio.median,
          wanted: 'at least',
          must: 0.5,
          goal: 0.75,
          unit: '',
        },
      ],
      notes: ['Peers measured the same way (research, November 2026): Outpost 0.066, Svix 0.046, Convoy 0.011.'],
    }
  },
}
