import type { Bench, Figure } from '../bench.ts'
import {
  type Contest,
  closeSides,
  contest,
  contestTable,
  handlers,
  type JobsSide,
  jobRounds,
  oneByOne,
  openSide,
  pairwise,
} from '../job-rounds.ts'
import { installPeer } from '../peers.ts'
import { type Fsync, startRedis } from '../redis.ts'
import { spread, type Verdict } from '../report.ts'
import { spreadOf } from '../statistics.ts'
import { cpuSeconds } from '../usage.ts'

/** Figure 8: our own code as the endpoint. No-op jobs, acknowledged one by one, against a queue that is made for it. */
export const jobs: Figure = {
  name: 'jobs',
  title: 'no-op jobs in process, fsynced, against BullMQ on Redis',
  async measure(bench) {
    installPeer('bullmq')
    const database = `sqlite:${bench.rig.tempDir()}/jobs.db`
    const posthorn = await openSide(bench, 'jobs-posthorn', { title: 'posthorn', database })
    const everysec = await openBullMq(bench, 'everysec')
    const always = await openBullMq(bench, 'always')
    const load = { jobs: bench.quick ? 3_000 : 20_000, ...oneByOne }
    const ours = contest(posthorn, load)
    const peers = [contest(everysec, load), contest(always, load)]
    await jobRounds(bench, [ours, ...peers], bench.quick ? 2 : 7)
    await closeSides([posthorn, everysec, always])
    return judge(ours, peers)
  },
}

async function openBullMq(bench: Bench, fsync: Fsync): Promise<JobsSide> {
  const { port, pid } = await startRedis(bench.rig, fsync)
  const title = `BullMQ, AOF ${fsync}`
  const database = `redis://127.0.0.1:${port}`
  return openSide(bench, 'jobs-bullmq', { title, database, serverCpuS: () => cpuSeconds(pid) })
}

function judge(ours: Contest, peers: readonly Contest[]) {
  const ratios = peers.map((peer) => ({
    title: peer.title,
    perCpu: spreadOf(pairwise(ours, peer, (trial) => trial.perCpuS)),
    perWall: spreadOf(pairwise(ours, peer, (trial) => trial.perWallS)),
  }))
  return {
    tables: [
      contestTable([ours, ...peers]),
      {
        columns: ['posthorn against', 'per CPU second', 'per second'],
        rows: ratios.map(({ title, perCpu, perWall }) => [title, spread(perCpu), spread(perWall)]),
      },
    ],
    verdicts: ratios.map(
      ({ title, perCpu }): Verdict => ({
        what: `jobs per CPU second, Posthorn / ${title}, Redis included, median of rounds`,
        value: perCpu.median,
        wanted: 'at least',
        must: 2,
        goal: 4,
        unit: '',
      }),
    ),
    notes: [
      `${oneByOne.publishers} publishers, each waiting for its last job's acknowledgement; ${handlers} handlers at once. Posthorn syncs every commit to disk; everysec may lose a second, always syncs as Posthorn does.`,
    ],
    data: { trials: [ours, ...peers].map(({ title, trials }) => ({ title, trials })), ratios },
  }
}
