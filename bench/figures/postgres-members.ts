import { rankOf } from '../../src/core/shares.ts'
import { type Bench, closedLoop, type Figure, type Trial, type TrialOptions, trial } from '../bench.ts'
import { sleep } from '../clock.ts'
import { trialTable } from '../comparison.ts'
import { BenchPostgres } from '../postgres.ts'
import { Posthorn } from '../posthorn.ts'
import { latency, number, spread, type Verdict } from '../report.ts'
import type { Target } from '../rig.ts'
import { spreadOf } from '../statistics.ts'

/** In all, so that one process has the same load as three. */
const connections = 192
const counts = [1, 2, 3] as const
/** Members know of each other with their beats, and a newcomer begins with the third. */
const joinedMs = 8_000

type Cluster = Readonly<{ count: number; target: Target; trials: Trial[] }>

/** Figure 16: how much it costs that several processes share one database. */
export const postgresMembers: Figure = {
  name: 'postgres-members',
  title: 'one, two and three server processes on one Postgres database, under the same load',
  async measure(bench) {
    const postgres = await BenchPostgres.start(bench.rig)
    const clusters: Cluster[] = []
    for (const count of counts) {
      clusters.push({ count, target: asTarget((await startMembers(bench, postgres, count)).members), trials: [] })
    }
    await sleep(joinedMs)
    const options = { events: bench.quick ? 6_000 : 24_000, connections, loop: closedLoop, delivered: true }
    for (const { target } of clusters) await trial(bench, target, options)
    for (let round = 1; round <= (bench.quick ? 2 : 7); round++) {
      for (const { target, trials } of clusters) trials.push(await trial(bench, target, options))
      bench.say(`  round ${round}`)
    }
    return judge(clusters, await measureHandOver(bench, postgres))
  },
}

async function startMembers(bench: Bench, postgres: BenchPostgres, count: number, concurrency = connections) {
  const { rig, sink } = bench
  const url = await postgres.createDatabase(`members_${count}_${concurrency}`)
  const members: Posthorn[] = []
  for (let at = 1; at <= count; at++) {
    const title = `${count} ${count === 1 ? 'process' : 'processes'}`
    const options = { folder: rig.tempDir(), title, postgres: { url, pid: postgres.pid } }
    members.push(await Posthorn.start(rig, options))
  }
  const endpointId = await members[0]?.createEndpoint({ url: sink.url, types: ['bench.event'], concurrency })
  return { members, endpointId: endpointId ?? '' }
}

function asTarget([first, ...others]: readonly Posthorn[]): Target {
  if (first === undefined) throw new Error('a cluster has at least one process')
  const { title, url, pid, postgres } = first
  return { title, url, pid, others, ...(postgres === undefined ? {} : { postgres }) }
}

/**
 * Events that one member accepts and only the other may deliver: of a concurrency of 1 all belongs to the member that is
 * first in the endpoint's order.
 */
async function measureHandOver(bench: Bench, postgres: BenchPostgres): Promise<Readonly<{ own: Trial; other: Trial }>> {
  const { members, endpointId } = await startMembers(bench, postgres, 2, 1)
  await sleep(joinedMs)
  const [first, second] = members
  if (first === undefined || second === undefined) throw new Error('two members are needed')
  const shown = await first.members()
  const ids = shown.map(({ id }) => id)
  const serving = shown.find(({ id }) => rankOf(endpointId, id, ids) === 0)
  const [server, other] = serving?.pid === first.pid ? [first, second] : [second, first]
  const events = bench.quick ? 200 : 2_000
  const loop = { kind: 'open', perSecond: 50 } as const
  const options: TrialOptions = { events, connections: 8, loop, delivered: true }
  for (const target of [server, other]) await trial(bench, target, { ...options, events: 100 })
  return { own: await trial(bench, server, options), other: await trial(bench, other, options) }
}

function judge(clusters: readonly Cluster[], { own, other }: Readonly<{ own: Trial; other: Trial }>) {
  const [alone, ...more] = clusters
  const ratios = more.map(({ count, trials }) => ({
    count,
    perCpu: spreadOf(ratiosOf(trials, alone?.trials ?? [], ({ perCpuS }) => perCpuS)),
    perWall: spreadOf(ratiosOf(trials, alone?.trials ?? [], ({ perWallS }) => perWallS)),
  }))
  const afterAck = (each: Trial) => (each.afterAckMs === null ? '–' : latency(each.afterAckMs))
  return {
    tables: [
      trialTable(clusters.map(({ trials }) => trials)),
      {
        columns: ['processes, against one', 'per CPU second', 'per second'],
        rows: ratios.map(({ count, perCpu, perWall }) => [String(count), spread(perCpu), spread(perWall)]),
      },
      {
        columns: ['delivered by', 'ack ms p50 / p99', 'from ack to request, ms p50 / p99'],
        rows: [
          ['the member that accepted', latency(own.ackMs), afterAck(own)],
          ['the other member', latency(other.ackMs), afterAck(other)],
        ],
      },
    ],
    verdicts: ratios.map(
      ({ count, perCpu }): Verdict => ({
        what: `events per CPU second, ${count} processes / 1, all of them and Postgres included, median of rounds`,
        value: perCpu.median,
        wanted: 'at least',
        must: 0.85,
        goal: null,
        unit: '',
      }),
    ),
    notes: [
      `${connections} connections in all, spread over the processes. From acknowledgement to request: 50 events a second, an endpoint that only one of two members serves, ${number(own.events)} events.`,
    ],
    data: { clusters, ratios, own, other },
  }
}

function ratiosOf(ours: readonly Trial[], theirs: readonly Trial[], of: (trial: Trial) => number): readonly number[] {
  return ours.map((each, round) => of(each) / of(theirs[round] ?? each))
}
