import type { Bench, Figure, Trial } from '../bench.ts'
import { sleep } from '../clock.ts'
import { arrivalP50, arrivalP99, healthyRun, perSecond } from '../healthy.ts'
import { BenchPostgres } from '../postgres.ts'
import { Posthorn } from '../posthorn.ts'
import { number, type Verdict } from '../report.ts'
import { median } from '../statistics.ts'

const besideEveryMs = 250
/** As many a second as the healthy endpoint gets. */
const besidePerTurn = (perSecond * besideEveryMs) / 1_000
const besideType = 'bench.beside'

type Case = Readonly<{ title: string; server: Posthorn; hasOther: boolean; trials: Trial[] }>

/** Figure 20: what unordered deliveries notice of one lane that always has work. */
export const postgresHotLane: Figure = {
  name: 'postgres-hot-lane',
  title: 'p99 of an unordered endpoint on Postgres alone, beside other unordered traffic, and beside one hot lane',
  async measure(bench) {
    const postgres = await BenchPostgres.start(bench.rig)
    const cases = [
      await openCase(bench, postgres, 'alone', null),
      await openCase(bench, postgres, `beside ${perSecond}/s without order`, 'none'),
      await openCase(bench, postgres, `beside ${perSecond}/s in one lane`, 'endpoint'),
    ]
    for (const each of cases) await run(bench, each, 2)
    for (let round = 1; round <= (bench.quick ? 2 : 6); round++) {
      for (const each of cases) each.trials.push(await run(bench, each, bench.quick ? 5 : 15))
      bench.say(`  round ${round}`)
    }
    return judge(cases)
  },
}

async function openCase(
  bench: Bench,
  postgres: BenchPostgres,
  title: string,
  ordering: 'none' | 'endpoint' | null,
): Promise<Case> {
  const { rig, sink } = bench
  const url = await postgres.createDatabase(`beside_${ordering}`)
  const server = await Posthorn.start(rig, { folder: rig.tempDir(), title, postgres: { url, pid: postgres.pid } })
  await server.createEndpoint({ url: sink.url, types: ['bench.event'], concurrency: 64 })
  if (ordering !== null) {
    const other = await rig.sink()
    await server.createEndpoint({ url: other.url, types: [besideType], concurrency: 64, ordering })
  }
  return { title, server, hasOther: ordering !== null, trials: [] }
}

async function run(bench: Bench, { server, hasOther }: Case, seconds: number): Promise<Trial> {
  const done = new AbortController()
  const beside = hasOther ? sendBeside(server, done.signal) : null
  const trial = await healthyRun(bench, server, seconds)
  done.abort()
  await beside
  return trial
}

async function sendBeside(server: Posthorn, done: AbortSignal): Promise<void> {
  for (let n = 0; !done.aborted; n += besidePerTurn) {
    const turnEndsAt = performance.now() + besideEveryMs
    await server.sendBatch(
      besideType,
      Array.from({ length: besidePerTurn }, (_, at) => ({ n: n + at })),
    )
    await sleep(Math.max(0, turnEndsAt - performance.now()))
  }
}

function judge(cases: readonly Case[]) {
  const p99 = cases.map(({ trials }) => median(arrivalP99(trials)))
  const [alone = Number.NaN, unordered = Number.NaN, hot = Number.NaN] = p99
  const verdict: Verdict = {
    what: 'median p99 beside a hot lane / beside the same traffic without order',
    value: hot / unordered,
    wanted: 'at most',
    must: 1.2,
    goal: null,
    unit: '',
  }
  return {
    tables: [
      {
        columns: ['unordered endpoint', 'arrival p99 ms of each run', 'median', 'arrival p50 ms', 'against alone'],
        rows: cases.map(({ title, trials }, at) => [
          title,
          arrivalP99(trials).map(number).join(' '),
          number(p99[at] ?? Number.NaN),
          number(median(arrivalP50(trials))),
          number((p99[at] ?? Number.NaN) / alone),
        ]),
      },
    ],
    verdicts: [verdict],
    notes: [
      `Open loop, ${perSecond}/s to the unordered endpoint. What comes beside it comes in batches of ${besidePerTurn}.`,
    ],
    data: cases.map(({ title, trials }) => ({ title, trials })),
  }
}
