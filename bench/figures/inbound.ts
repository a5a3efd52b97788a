import { type Bench, closedLoop, type Figure, interleaved, type Pairs, ratios } from '../bench.ts'
import { comparison } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { spread } from '../report.ts'
import type { Target } from '../rig.ts'
import { spreadOf } from '../statistics.ts'

const secret = 'it is no secret that this is a bench'

/** Single pairs lie up to a third apart, so that it takes a hundred to tell 0.85 from 0.88. */
const pairsAgainstPlain = 101
const pairsAgainstKeyed = 21

/** Figure 9: what a signature check, a provider's headers and its event id cost, against the plain intake. */
export const inbound: Figure = {
  name: 'inbound',
  title: 'webhooks of GitHub at a source, against the plain intake',
  async measure(bench) {
    const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir() })
    const types = ['bench.event']
    await posthorn.pauseEndpoint(await posthorn.createEndpoint({ url: bench.sink.url, types, concurrency: 64 }))
    const source = await posthorn.createSource(secret)
    const plain: Target = { title: '/v1/events', url: posthorn.url, pid: posthorn.pid }
    const keyed: Target = { ...plain, title: '/v1/events, keyed', dress: { kind: 'keyed' } }
    const againstPlain = await pairsOf(bench, source, plain, pairsAgainstPlain)
    const againstKeyed = await pairsOf(bench, source, keyed, pairsAgainstKeyed)
    const ratio = perCpu(againstPlain)
    return {
      ...comparison(againstPlain),
      verdicts: [
        {
          what: 'events per CPU second, source / plain intake, median of pairs',
          value: ratio.median,
          wanted: 'at least',
          must: 0.85,
          goal: null,
          unit: '',
        },
      ],
      notes: [
        'A source also keeps the id of the event, by which repeats are known, and the headers of the request.',
        `Against the intake with an Idempotency-Key, which keeps a key too: ${spread(perCpu(againstKeyed))}.`,
      ],
    }
  },
}

function pairsOf(bench: Bench, ours: Target, theirs: Target, count: number): Promise<Pairs> {
  return interleaved(bench, [ours, theirs], bench.quick ? 2 : count, {
    // Short and many: what else the machine does changes from second to second, and a pair should see the same of it.
    events: 5_000,
    connections: 64,
    loop: closedLoop,
    delivered: false,
  })
}

function perCpu(pairs: Pairs) {
  return spreadOf(ratios(pairs, (trial) => trial.perCpuS))
}
