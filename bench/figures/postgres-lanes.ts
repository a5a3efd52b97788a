import type { Figure } from '../bench.ts'
import { closeSides, contest, contestTable, handlers, jobRounds, oneByOne, openSide, pairwise } from '../job-rounds.ts'
import { BenchPostgres, encryptionKeyText } from '../postgres.ts'
import { spread, type Verdict } from '../report.ts'
import { spreadOf } from '../statistics.ts'
import { treeCpuSeconds } from '../usage.ts'

const keys = 10_000

/** Figure 18: what it costs to keep the order of each key. */
export const postgresLanes: Figure = {
  name: 'postgres-lanes',
  title: 'jobs on Postgres in the order of 10,000 keys, against none',
  async measure(bench) {
    const postgres = await BenchPostgres.start(bench.rig)
    const open = async (ordering: 'none' | 'key') =>
      openSide(bench, 'jobs-posthorn', {
        title: `ordering ${ordering}`,
        database: await postgres.createDatabase(`ordering_${ordering}`),
        serverCpuS: () => treeCpuSeconds(postgres.pid),
        encryptionKey: encryptionKeyText,
        ordering,
      })
    const [ordered, free] = [await open('key'), await open('none')]
    const load = { jobs: bench.quick ? 4_000 : 20_000, keys, ...oneByOne }
    const [ours, theirs] = [contest(ordered, load), contest(free, load)]
    await jobRounds(bench, [ours, theirs], bench.quick ? 3 : 9)
    await closeSides([ordered, free])
    const perCpu = spreadOf(pairwise(ours, theirs, (trial) => trial.perCpuS))
    const perWall = spreadOf(pairwise(ours, theirs, (trial) => trial.perWallS))
    const verdict: Verdict = {
      what: 'jobs per CPU second, ordered by key / unordered, Postgres included, median of rounds',
      value: perCpu.median,
      wanted: 'at least',
      must: 0.6,
      goal: null,
      unit: '',
    }
    return {
      tables: [
        contestTable([ours, theirs]),
        { columns: ['ratio', 'per CPU second', 'per second'], rows: [['key / none', spread(perCpu), spread(perWall)]] },
      ],
      verdicts: [verdict],
      notes: [
        `${oneByOne.publishers} publishers one by one, ${handlers} handlers. Both send the same keys; with ordering none nothing waits for them.`,
      ],
      data: { ours: ours.trials, theirs: theirs.trials, perCpu, perWall },
    }
  },
}
