import { type Bench, closedLoop, type Figure, interleaved, ratios, type TrialOptions } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { root } from '../rig.ts'
import { spreadOf } from '../statistics.ts'
import { throughput } from '../throughput.ts'

function load({ quick }: Bench): TrialOptions {
  return { events: quick ? 5_000 : 20_000, connections: 64, loop: closedLoop, delivered: false }
}

async function start({ rig, sink }: Bench, title: string, checkout: string): Promise<Posthorn> {
  const posthorn = await Posthorn.start(rig, { folder: rig.tempDir(), title, checkout })
  const types = ['bench.event']
  await posthorn.pauseEndpoint(await posthorn.createEndpoint({ url: sink.url, types, concurrency: 64 }))
  return posthorn
}

const versus = throughput({
  start,
  load,
  latency: { what: 'acknowledgement p99', better: 'less', of: ({ ackMs }) => ackMs.p99 },
})

/** Figure 2: ingest alone. The endpoint that matches is paused, so that an event and a delivery are kept for each 202. */
export const ingest: Figure = {
  name: 'ingest',
  title: 'ingest alone, event and one delivery kept, against a no-op node:http server',
  versus,
  async measure(bench) {
    const posthorn = await start(bench, 'posthorn', root)
    const noop = await bench.rig.baseline('noop', bench.sink.url)
    const pairs = await interleaved(bench, [posthorn, noop], bench.quick ? 2 : 7, load(bench))
    const ratio = spreadOf(ratios(pairs, (trial) => trial.perCpuS))
    return {
      ...comparison(pairs),
      verdicts: [
        {
          what: 'events per CPU second, Posthorn / no-op, median of pairs',
          value: ratio.median,
          wanted: 'at least',
          must: 0.4,
          goal: 0.55,
          unit: '',
        },
      ],
      notes: [],
    }
  },
}
