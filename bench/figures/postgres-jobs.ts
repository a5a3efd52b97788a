import type { Figure } from '../bench.ts'
import {
  type Contest,
  closeSides,
  contest,
  contestTable,
  handlers,
  jobRounds,
  oneByOne,
  openSide,
  pairwise,
} from '../job-rounds.ts'
import { installPeer } from '../peers.ts'
import { BenchPostgres, encryptionKeyText } from '../postgres.ts'
import { spread, type Verdict } from '../report.ts'
import { spreadOf } from '../statistics.ts'
import { treeCpuSeconds } from '../usage.ts'

/** As many jobs are under way as the largest batch of all three holds. */
const inBatches = { publishers: 4, batch: 64 } as const

/** Figure 14: our own code as the endpoint, on Postgres, against the queues that are made for it. */
export const postgresJobs: Figure = {
  name: 'postgres-jobs',
  title: 'no-op jobs in process, on Postgres, against graphile-worker and pg-boss',
  async measure(bench) {
    for (const peer of ['graphile-worker', 'pg-boss'] as const) installPeer(peer)
    const postgres = await BenchPostgres.start(bench.rig)
    const place = async (name: string) => ({
      title: name,
      database: await postgres.createDatabase(name),
      serverCpuS: () => treeCpuSeconds(postgres.pid),
    })
    const posthorn = await openSide(bench, 'jobs-posthorn', {
      ...(await place('posthorn')),
      encryptionKey: encryptionKeyText,
    })
    const graphile = await openSide(bench, 'jobs-graphile', await place('graphile-worker'))
    const boss = await openSide(bench, 'jobs-pg-boss', await place('pg-boss'))
    const ours = bench.quick ? 4_000 : 20_000
    const slow = bench.quick ? 1_000 : 4_000
    const single = {
      ours: contest(posthorn, { jobs: ours, ...oneByOne }, 'posthorn, one by one'),
      peers: [graphile, boss].map((peer) => contest(peer, { jobs: slow, ...oneByOne }, `${peer.title}, one by one`)),
    }
    const batched = {
      ours: contest(posthorn, { jobs: ours, ...inBatches }, 'posthorn, sendBatch of 64'),
      peers: [
        contest(graphile, { jobs: ours, ...inBatches }, 'graphile-worker, addJobs of 64'),
        contest(boss, { jobs: ours, ...inBatches }, 'pg-boss, insert of 64'),
      ],
    }
    const all = [single.ours, ...single.peers, batched.ours, ...batched.peers]
    await jobRounds(bench, all, bench.quick ? 2 : 7)
    await closeSides([posthorn, graphile, boss])
    return judge(single, batched, all)
  },
}

type Comparison = Readonly<{ ours: Contest; peers: readonly Contest[] }>

function judge(single: Comparison, batched: Comparison, all: readonly Contest[]) {
  const rows = [single, batched].flatMap(({ ours, peers }) => peers.map((peer) => ratioRow(ours, peer)))
  return {
    tables: [contestTable(all), { columns: ['posthorn against', 'per CPU second', 'per second'], rows }],
    verdicts: [
      verdict('one by one', single, { must: 6, goal: 12 }),
      verdict('in batches', batched, { must: 1, goal: 1.5 }),
    ],
    notes: [
      `One server with the defaults of PostgreSQL, a database for each; all its processes are charged to who is measured. ${handlers} handlers at once.`,
      `One by one: ${oneByOne.publishers} publishers, each waiting for its last job's acknowledgement. In batches: ${inBatches.publishers} publishers.`,
      'graphile-worker has its local queue and completes in batches; pg-boss fetches and completes up to 256 at once, without its maintenance.',
    ],
    data: all.map(({ title, trials }) => ({ title, trials })),
  }
}

function ratioRow(ours: Contest, peer: Contest): readonly string[] {
  const perCpu = spreadOf(pairwise(ours, peer, (trial) => trial.perCpuS))
  const perWall = spreadOf(pairwise(ours, peer, (trial) => trial.perWallS))
  return [peer.title, spread(perCpu), spread(perWall)]
}

/** Against the better one of each round. */
function verdict(how: string, { ours, peers }: Comparison, limits: Pick<Verdict, 'must' | 'goal'>): Verdict {
  const perPeer = peers.map((peer) => pairwise(ours, peer, (trial) => trial.perCpuS))
  const ratios = ours.trials.map((_, round) => Math.min(...perPeer.map((each) => each[round] ?? Number.NaN)))
  const what = `jobs per CPU second ${how}, Posthorn / the better peer, Postgres included, median of rounds`
  return { what, value: spreadOf(ratios).median, wanted: 'at least', ...limits, unit: '' }
}
