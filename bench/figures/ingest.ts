import { closedLoop, type Figure, interleaved, ratios } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { spreadOf } from '../statistics.ts'

/** Figure 2: ingest alone. The endpoint that matches is paused, so that an event and a delivery are kept for each 202. */
export const ingest: Figure = {
  name: 'ingest',
  title: 'ingest alone, event and one delivery kept, against a no-op node:http server',
  async measure(bench) {
    const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir() })
    const types = ['bench.event']
    await posthorn.pauseEndpoint(await posthorn.createEndpoint({ url: bench.sink.url, types, concurrency: 64 }))
    const noop = await bench.rig.baseline('noop', bench.sink.url)
    const pairs = await interleaved(bench, [posthorn, noop], bench.quick ? 2 : 7, {
      events: bench.quick ? 5_000 : 20_000,
      connections: 64,
      loop: closedLoop,
      delivered: false,
    })
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
