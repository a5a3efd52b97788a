import type { Bench, Figure } from '../bench.ts'
import type { Remote } from '../ipc.ts'
import type { JobsCommands } from '../jobs.ts'
import { installPeer } from '../peers.ts'
import { type Fsync, startRedis } from '../redis.ts'
import { number, spread, type Verdict } from '../report.ts'
import { spreadOf } from '../statistics.ts'
import { cpuSeconds, settled } from '../usage.ts'

const publishers = 64
const handlers = 64
const openMsMax = 30_000
const runMsMax = 180_000
const restMsMax = 10_000

type Side = Readonly<{ title: string; remote: Remote<JobsCommands>; pids: readonly number[] }>
type JobsTrial = Readonly<{ perWallS: number; perCpuS: number; repeated: number }>

/** Figure 8: our own code as the endpoint. No-op jobs, acknowledged one by one, against a queue that is made for it. */
export const jobs: Figure = {
  name: 'jobs',
  title: 'no-op jobs in process, fsynced, against BullMQ on Redis',
  async measure(bench) {
    installPeer('bullmq')
    const ours = await openSide(bench, 'posthorn', 'jobs-posthorn', null)
    const everysec = await openSide(bench, 'BullMQ, AOF everysec', 'jobs-bullmq', 'everysec')
    const always = await openSide(bench, 'BullMQ, AOF always', 'jobs-bullmq', 'always')
    const sides = [ours, everysec, always]
    const trials = new Map<Side, JobsTrial[]>(sides.map((side) => [side, []]))
    const jobsPerRun = bench.quick ? 3_000 : 20_000
    for (const side of sides) await run(side, jobsPerRun)
    for (let round = 0; round < (bench.quick ? 2 : 7); round++) {
      for (const side of sides) trials.get(side)?.push(await run(side, jobsPerRun))
      bench.say(`  round ${round + 1}`)
    }
    for (const { remote } of sides) await remote.call('close', null, openMsMax)
    return judge(sides, trials)
  },
}

async function openSide(
  bench: Bench,
  title: string,
  program: 'jobs-posthorn' | 'jobs-bullmq',
  fsync: Fsync | null,
): Promise<Side> {
  const redis = fsync === null ? null : await startRedis(bench.rig, fsync)
  const remote = await bench.rig.jobs(program)
  await remote.call('open', { folder: bench.rig.tempDir(), handlers, redisPort: redis?.port ?? 0 }, openMsMax)
  return { title, remote, pids: redis === null ? [remote.pid] : [remote.pid, redis.pid] }
}

async function run({ remote, pids, title }: Side, count: number): Promise<JobsTrial> {
  for (const pid of pids) await settled(pid, restMsMax)
  const before = cpuOf(pids)
  const { wallS, handled, repeated } = await remote.call('run', { jobs: count, publishers }, runMsMax)
  for (const pid of pids) await settled(pid, restMsMax)
  if (handled !== count) throw new Error(`${title}: ${handled} of ${count} jobs were handled`)
  return { perWallS: count / wallS, perCpuS: count / (cpuOf(pids) - before), repeated }
}

function cpuOf(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)
}

function judge(sides: readonly Side[], trials: ReadonlyMap<Side, readonly JobsTrial[]>) {
  const [ours, ...peers] = sides.map((side) => ({ title: side.title, trials: trials.get(side) ?? [] }))
  const ratios = peers.map((peer) => ({
    title: peer.title,
    perCpu: spreadOf(pairwise(ours?.trials, peer.trials, (trial) => trial.perCpuS)),
    perWall: spreadOf(pairwise(ours?.trials, peer.trials, (trial) => trial.perWallS)),
  }))
  const rows = [ours, ...peers].map((side) => [
    side?.title ?? '',
    spread(spreadOf(side?.trials.map((trial) => trial.perCpuS) ?? [])),
    spread(spreadOf(side?.trials.map((trial) => trial.perWallS) ?? [])),
    number(side?.trials.reduce((sum, trial) => sum + trial.repeated, 0) ?? 0),
  ])
  return {
    tables: [
      { columns: ['system', 'jobs per CPU second', 'jobs per second', 'run twice'], rows },
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
      `${publishers} publishers, each waiting for its last job's acknowledgement; ${handlers} handlers at once. Posthorn syncs every commit to disk; everysec may lose a second, always syncs as Posthorn does.`,
    ],
    data: { ours, peers, ratios },
  }
}

function pairwise(
  ours: readonly JobsTrial[] | undefined,
  theirs: readonly JobsTrial[],
  of: (trial: JobsTrial) => number,
): number[] {
  return (ours ?? []).map((trial, at) => of(trial) / of(theirs[at] ?? trial))
}
