import type { Versus } from '../against.ts'
import { closedPort, type Prepared, prepare } from '../backlog.ts'
import type { Bench, Figure, Trial } from '../bench.ts'
import { sleep } from '../clock.ts'
import { countRows } from '../fill.ts'
import { arrivalP50, arrivalP99, healthyRun, perSecond } from '../healthy.ts'
import { Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { root } from '../rig.ts'
import { median } from '../statistics.ts'
import { settled } from '../usage.ts'

const breakerOpensMs = 3_000
const restMsMax = 60_000
/** The tries in flight when the breaker opened, and a few probes. */
const triesAtDeadMax = 200

const parkedCount = ({ quick }: Bench) => (quick ? 100_000 : 1_000_000)
const warmUp = (bench: Bench, server: Posthorn) => healthyRun(bench, server, 2)
const run = (bench: Bench, server: Posthorn) => healthyRun(bench, server, bench.quick ? 5 : 20)

const versus: Versus = {
  async prepare(bench, { title, root: checkout }) {
    const prepared = await prepare(bench, { parkedUrl: await closedPort(), parked: parkedCount(bench), checkout })
    return () => startOn(bench, prepared, title, checkout)
  },
  warmUp,
  run,
  measures: [
    { what: 'arrival p99, backlog parked', better: 'less', of: ({ arrivalMs }) => arrivalMs?.p99 ?? Number.NaN },
    { what: 'arrival p50, backlog parked', better: 'less', of: ({ arrivalMs }) => arrivalMs?.p50 ?? Number.NaN },
    { what: 'CPU per event', better: 'less', of: ({ cpuUsPerEvent }) => cpuUsPerEvent },
  ],
}

/** Figure 4: a million deliveries behind a dead endpoint, and what a healthy one notices of them. */
export const isolation: Figure = {
  name: 'isolation',
  title: 'p99 of a healthy endpoint alone, and with deliveries parked behind a dead one',
  versus,
  async measure(bench) {
    const parked = parkedCount(bench)
    const parkedUrl = await closedPort()
    const alone = await prepare(bench, { parkedUrl, parked: 1 })
    const crowded = await prepare(bench, { parkedUrl, parked })
    const servers = [await startOn(bench, alone, 'alone'), await startOn(bench, crowded, `${number(parked)} parked`)]
    const trials: Trial[][] = [[], []]
    for (const server of servers) await warmUp(bench, server)
    for (let round = 0; round < (bench.quick ? 2 : 4); round++) {
      for (const [at, server] of servers.entries()) trials[at]?.push(await run(bench, server))
    }
    for (const server of servers) await server.stop()
    return judge(trials[0] ?? [], trials[1] ?? [], crowded)
  },
}

async function startOn(
  bench: Bench,
  { folder, parkedId }: Prepared,
  title: string,
  checkout = root,
): Promise<Posthorn> {
  const posthorn = await Posthorn.start(bench.rig, { folder, title, checkout })
  await posthorn.resumeEndpoint(parkedId)
  await sleep(breakerOpensMs)
  await settled(posthorn.pid, restMsMax)
  return posthorn
}

function judge(alone: readonly Trial[], crowded: readonly Trial[], { file, parkedId, parked }: Prepared) {
  const worstAlone = Math.max(...arrivalP99(alone))
  const bestAlone = Math.min(...arrivalP99(alone))
  const ratio = median(arrivalP99(crowded)) / median(arrivalP99(alone))
  const { pending, tries } = countRows(file, parkedId)
  // What was tried before the breaker opened waits again or has failed; hardly anything may be gone.
  if (pending < parked * 0.999) throw new Error(`of ${parked} parked deliveries only ${pending} still wait`)
  if (tries === 0 || tries > triesAtDeadMax)
    throw new Error(`${tries} tries at the dead endpoint: its breaker did not act`)
  return {
    tables: [
      {
        columns: [
          'healthy endpoint',
          'arrival p99 ms of each run',
          'median',
          'arrival p50 ms',
          'ack p99 ms',
          'lag p99 ms',
        ],
        rows: [row('alone', alone), row(`${number(parked)} parked`, crowded)],
      },
      {
        columns: ['', 'factor'],
        rows: [
          ['A/A: worst run alone / best run alone', number(worstAlone / bestAlone)],
          ['median parked / median alone', number(ratio)],
        ],
      },
    ],
    verdicts: [
      {
        what: 'median p99 with the backlog / median p99 alone',
        value: ratio,
        wanted: 'at most' as const,
        must: 1.2,
        goal: null,
        unit: '',
      },
    ],
    notes: [
      `Open loop, ${perSecond}/s. Afterwards ${number(pending)} deliveries wait at the dead endpoint, which was tried ${tries} times.`,
    ],
    data: { alone, crowded, ratio, pending, tries },
  }
}

function row(title: string, trials: readonly Trial[]): string[] {
  const p99 = arrivalP99(trials)
  return [
    title,
    p99.map(number).join(' '),
    number(median(p99)),
    number(median(arrivalP50(trials))),
    number(median(trials.map((each) => each.ackMs.p99))),
    number(median(trials.map((each) => each.lagMs?.p99 ?? Number.NaN))),
  ]
}
