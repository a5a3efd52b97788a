import { closedLoop, type Figure, interleaved, ratios } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { spreadOf } from '../statistics.ts'

const connections = 64

/** Figure 1: from an event's POST to its arrival at a sink, kept on disk on the way. */
export const endToEnd: Figure = {
  name: 'end-to-end',
  title: 'end to end, durable, accepted over HTTP → delivered to a loopback sink, against a no-store forwarder',
  async measure(bench) {
    const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir() })
    await posthorn.createEndpoint({ url: bench.sink.url, types: ['bench.event'], concurrency: connections })
    const forwarder = await bench.rig.baseline('forwarder', bench.sink.url)
    const pairs = await interleaved(bench, [posthorn, forwarder], bench.quick ? 2 : 5, {
      events: bench.quick ? 5_000 : 20_000,
      connections,
      loop: closedLoop,
      delivered: true,
    })
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
