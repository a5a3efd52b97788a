import type { Figure } from '../bench.ts'
import { sleep } from '../clock.ts'
import { closeSides, type JobsSide, openSide } from '../job-rounds.ts'
import { BenchPostgres, encryptionKeyText, withClient } from '../postgres.ts'
import { number, type Table, type Verdict } from '../report.ts'
import { treeCpuSeconds } from '../usage.ts'

const minuteMs = 60_000
const perTurn = 500
/** One turn a second: what a few processes keep up with easily, so that the tables are judged and not the machine. */
const turnMs = 1_000
const runMsMax = 60_000
const tables = ['live', 'events', 'ended', 'attempts', 'marks', 'members'] as const
type Name = (typeof tables)[number]

type Sample = Readonly<{ minute: number; dead: Record<Name, number>; mb: Record<Name, number>; autovacuums: number }>

/** Figure 19: what a steady load leaves behind on Postgres, with autovacuum's defaults. */
export const postgresSoak: Figure = {
  name: 'postgres-soak',
  title:
    'dead rows and sizes of tables on Postgres under a steady load, autovacuum with its defaults (--full: 30 minutes)',
  async measure(bench) {
    const minutes = bench.quick ? 1 : bench.full ? 30 : 6
    const postgres = await BenchPostgres.start(bench.rig)
    const database = await postgres.createDatabase('soak')
    const side = await openSide(bench, 'jobs-posthorn', {
      title: 'soak',
      database,
      serverCpuS: () => treeCpuSeconds(postgres.pid),
      encryptionKey: encryptionKeyText,
      ordering: 'key',
    })
    const samples: Sample[] = []
    const startedAt = performance.now()
    for (let minute = 1; minute <= minutes; minute++) {
      await publishUntil(side, startedAt + minute * minuteMs)
      samples.push(await sampleOf(database, minute))
      bench.say(`  ${minute} of ${minutes} minutes`)
    }
    await closeSides([side])
    return { ...judge(samples), data: samples }
  },
}

async function publishUntil({ remote }: JobsSide, endsAt: number): Promise<void> {
  for (;;) {
    const turnEndsAt = performance.now() + turnMs
    await remote.call('run', { jobs: perTurn, publishers: 16, batch: 1, keys: 10_000 }, runMsMax)
    if (performance.now() >= endsAt) return
    await sleep(Math.max(0, turnEndsAt - performance.now()))
  }
}

function sampleOf(database: string, minute: number): Promise<Sample> {
  return withClient(database, async (client) => {
    const { rows } = await client.query(
      `SELECT relname, n_dead_tup::int AS dead, autovacuum_count::int AS autovacuums,
        pg_total_relation_size(relid) / 1048576.0 AS mb
       FROM pg_stat_user_tables WHERE schemaname = 'posthorn'`,
    )
    const of = (name: Name) => rows.find(({ relname }) => relname === name)
    const each = (value: (row: (typeof rows)[number]) => unknown) =>
      Object.fromEntries(tables.map((name) => [name, Number(value(of(name)))])) as Record<Name, number>
    const autovacuums = rows.reduce((sum, row) => sum + Number(row.autovacuums), 0)
    return { minute, dead: each(({ dead }) => dead), mb: each(({ mb }) => mb), autovacuums }
  })
}

function judge(samples: readonly Sample[]) {
  const half = samples.slice(Math.floor(samples.length / 2))
  const most = Math.max(...samples.map(({ dead }) => dead.live))
  const mostLater = Math.max(...half.map(({ dead }) => dead.live))
  const perMinute = (minuteMs * perTurn) / turnMs
  const verdict: Verdict = {
    what: 'most dead rows of the live table in the second half, in minutes of jobs',
    value: mostLater / perMinute,
    wanted: 'at most',
    must: 4,
    goal: 2,
    unit: '',
  }
  const table: Table = {
    columns: ['minute', 'autovacuums', ...tables.map((name) => `${name}: dead / MB`)],
    rows: samples
      .filter((_, at) => at === samples.length - 1 || at % Math.ceil(samples.length / 10) === 0)
      .map(({ minute, dead, mb, autovacuums }) => [
        String(minute),
        String(autovacuums),
        ...tables.map((name) => `${number(dead[name])} / ${number(mb[name])}`),
      ]),
  }
  const notes = [
    `${perTurn} jobs a second, ordered by 10,000 keys, every one kept. Most dead rows of the live table at any time: ${number(most)}.`,
    'Every job leaves two dead rows of live. Autovacuum looks once a minute. The tables events, ended and attempts grow with what is kept.',
  ]
  return { tables: [table], verdicts: [verdict], notes }
}
