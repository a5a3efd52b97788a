import type { Bench } from './bench.ts'
import type { Remote } from './ipc.ts'
import type { JobsCommands, JobsLoad, JobsSettings } from './jobs.ts'
import { number, spread, type Table } from './report.ts'
import type { JobsProgram } from './rig.ts'
import { spreadOf } from './statistics.ts'
import { allSettled, cpuSeconds } from './usage.ts'

const openMsMax = 30_000
const runMsMax = 180_000
const restMsMax = 10_000

export const handlers = 64
/** From as many publishers at once, each of which waits for the acknowledgement of its last job. */
export const oneByOne = { publishers: 64, batch: 1 } as const

/** One system of a job figure, in a process of its own. */
export type JobsSide = Readonly<{
  title: string
  remote: Remote<JobsCommands>
  /** What it has used so far, its server included. */
  cpuS: () => number
}>

export type JobsTrial = Readonly<{ perWallS: number; perCpuS: number; repeated: number }>

/** A side under a load, and what came of it in every round. */
export type Contest = Readonly<{ title: string; side: JobsSide; load: JobsLoad; trials: JobsTrial[] }>

export async function openSide(
  bench: Bench,
  program: JobsProgram,
  {
    title,
    serverCpuS,
    ...settings
  }: Omit<JobsSettings, 'handlers'> & Readonly<{ title: string; serverCpuS?: () => number }>,
): Promise<JobsSide> {
  const remote = await bench.rig.jobs(program)
  await remote.call('open', { ...settings, handlers }, openMsMax)
  return { title, remote, cpuS: () => cpuSeconds(remote.pid) + (serverCpuS?.() ?? 0) }
}

export function contest(side: JobsSide, load: JobsLoad, title = side.title): Contest {
  return { title, side, load, trials: [] }
}

/** A warm-up for each, then A B C A B C …: what changes on the machine meanwhile meets all of them. */
export async function jobRounds(bench: Bench, contests: readonly Contest[], rounds: number): Promise<void> {
  for (const { side, load } of contests) await run(side, load)
  for (let round = 1; round <= rounds; round++) {
    for (const { side, load, trials } of contests) trials.push(await run(side, load))
    bench.say(`  round ${round} of ${rounds}`)
  }
}

export async function closeSides(sides: readonly JobsSide[]): Promise<void> {
  for (const { remote } of sides) await remote.call('close', null, openMsMax)
}

async function run({ remote, cpuS, title }: JobsSide, load: JobsLoad): Promise<JobsTrial> {
  await allSettled(cpuS, restMsMax)
  const before = cpuS()
  const { wallS, handled, repeated } = await remote.call('run', load, runMsMax)
  await allSettled(cpuS, restMsMax)
  if (handled !== load.jobs) throw new Error(`${title}: ${handled} of ${load.jobs} jobs were handled`)
  return { perWallS: load.jobs / wallS, perCpuS: load.jobs / (cpuS() - before), repeated }
}

export function contestTable(contests: readonly Contest[]): Table {
  return {
    columns: ['system', 'jobs per CPU second', 'jobs per second', 'run twice'],
    rows: contests.map(({ title, trials }) => [
      title,
      spread(spreadOf(trials.map((trial) => trial.perCpuS))),
      spread(spreadOf(trials.map((trial) => trial.perWallS))),
      number(trials.reduce((sum, trial) => sum + trial.repeated, 0)),
    ]),
  }
}

/** One ratio for each round. */
export function pairwise(ours: Contest, theirs: Contest, of: (trial: JobsTrial) => number): readonly number[] {
  return ours.trials.map((trial, round) => of(trial) / of(theirs.trials[round] ?? trial))
}
