import assert from 'node:assert/strict'
import { databaseAt } from '../../src/store/open-store.ts'
import type { Change, Claim } from '../../src/store/pipeline-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Bench, Figure } from '../bench.ts'
import { multiplyRows } from '../fill-postgres.ts'
import { BenchPostgres, encryptionKey, withClient } from '../postgres.ts'
import { number, type Verdict } from '../report.ts'
import { type Latency, latencyOf } from '../statistics.ts'
import { appendPending, benchEndpoints } from '../store-contents.ts'

const batch = 64
const leaseMs = 60_000
const bytesMax = 64 * 1024 * 1024
const claimsPerTurn = 60
const warmUpsPerTurn = 10

type Size = Readonly<{ pending: number; ended: number }>
type Opened = Size & Readonly<{ store: Store; tookMs: number[] }>
type Measured = Size & Readonly<{ tookMs: Latency }>

/** Figure 17: what it costs to claim a batch for one endpoint among several on Postgres, whatever waits or has ended. */
export const postgresClaims: Figure = {
  name: 'postgres-claims',
  title: 'cost of a claim of 64 on Postgres by number of pending and of ended deliveries, one endpoint among four',
  async measure(bench) {
    const postgres = await BenchPostgres.start(bench.rig)
    const opened: Opened[] = []
    try {
      for (const size of sizesOf(bench)) opened.push(await openFilled(bench, postgres, size))
      await postgres.checkpoint()
      await byTurns(opened, bench.quick ? 4 : 10)
      return judge(opened.map(({ pending, ended, tookMs }) => ({ pending, ended, tookMs: latencyOf(tookMs) })))
    } finally {
      for (const { store } of opened) await store.close()
    }
  },
}

function sizesOf({ quick, full }: Bench): readonly Size[] {
  const pending = [1_000, 100_000, ...(quick ? [] : [1_000_000]), ...(full ? [10_000_000] : [])]
  return [
    ...pending.map((each) => ({ pending: each, ended: 0 })),
    { pending: 1_000, ended: quick ? 100_000 : full ? 10_000_000 : 1_000_000 },
  ]
}

async function openFilled(bench: Bench, postgres: BenchPostgres, { pending, ended }: Size): Promise<Opened> {
  const url = await postgres.createDatabase(`pending_${pending}_ended_${ended}`)
  const startedAt = performance.now()
  const database = { kind: 'postgres', url, schema: 'posthorn' } as const
  const opened = await databaseAt({ database, encryptionKey }).open({ onFatal: giveUp })
  const { store } = opened
  const templates = benchEndpoints.length
  await appendPending(opened, ended > 0 ? 2 * templates : templates)
  if (ended > 0) await endOneOfEach(store)
  await withClient(url, async (client) => {
    if (ended > 0) await multiplyRows(client, 'ended', ended - templates)
    await multiplyRows(client, 'live', pending - templates)
    await client.query('VACUUM (ANALYZE)')
  })
  const fillS = (performance.now() - startedAt) / 1000
  bench.say(`  ${number(pending)} pending, ${number(ended)} ended: filled in ${number(fillS)} s`)
  return { pending, ended, store, tookMs: [] }
}

async function endOneOfEach(store: Store): Promise<void> {
  for (const { id } of benchEndpoints) {
    const now = Date.now()
    const { claims } = await store.claim({ ...requestFor(now), from: { endpointId: id }, limit: 1 })
    await commitAll(store, claims, ({ delivery }) => {
      const { leaseEndsAt: _, ...facts } = delivery
      const made = { attempts: 1, triesInBudget: 1, lastAttemptAt: now, version: delivery.version + 1 }
      const attempt = {
        number: 1,
        startedAt: now,
        tookMs: 1,
        outcome: 'delivered',
        statusCode: 200,
        ...nothingSaid,
      } as const
      return { to: { ...facts, ...made, status: 'delivered', deliveredAt: now }, attempt, claimNext: null }
    })
  }
}

const nothingSaid = {
  error: null,
  responseHeaders: null,
  responseBody: null,
  errorClass: null,
  dependency: null,
  stack: null,
} as const

/** All sizes are open at once and measured by turns: neither a warmer compiler nor a busier machine favours one. */
async function byTurns(opened: readonly Opened[], turns: number): Promise<void> {
  // The first turn warms up compilers and caches and is not counted.
  for (let at = 0; at <= turns; at++) {
    for (const { store, tookMs } of opened) {
      for (let i = -warmUpsPerTurn; i < claimsPerTurn; i++) {
        const took = await claimOnce(store)
        if (at > 0 && i >= 0) tookMs.push(took)
      }
    }
  }
}

/** How many milliseconds it took; what it claimed is put back before it answers. */
async function claimOnce(store: Store): Promise<number> {
  const now = Date.now()
  const startedAt = performance.now()
  const { claims } = await store.claim(requestFor(now))
  const tookMs = performance.now() - startedAt
  assert.equal(claims.length, batch)
  // To the tail, so that the number that waits stays the same and every claim meets other rows.
  await commitAll(store, claims, ({ delivery }) => {
    const { leaseEndsAt: _, ...facts } = delivery
    const to = { ...facts, status: 'pending' as const, dueAt: now, version: delivery.version + 1 }
    return { to, attempt: null, claimNext: null }
  })
  return tookMs
}

function requestFor(now: number) {
  const endpointId = benchEndpoints[1]?.id ?? ''
  return { from: { endpointId }, now, leaseEndsAt: now + leaseMs, limit: batch, bytesMax }
}

async function commitAll(store: Store, claims: readonly Claim[], change: (claim: Claim) => Change): Promise<void> {
  for (const result of await store.commit(claims.map(change))) assert.equal(result.kind, 'applied')
}

function judge(measured: readonly Measured[]) {
  const [smallest] = measured
  const ratioOf = ({ tookMs }: Measured) => tookMs.p50 / (smallest?.tookMs.p50 ?? Number.NaN)
  const worst = (some: readonly Measured[]) => Math.max(...some.map(ratioOf))
  const verdict = (what: string, value: number): Verdict => ({
    what: `worst p50 of a claim ${what}, against 1 thousand pending`,
    value,
    wanted: 'at most',
    must: 2,
    goal: null,
    unit: '×',
  })
  return {
    tables: [
      {
        columns: ['pending', 'ended', 'p50 ms', 'p95 ms', 'p50 against 1 thousand'],
        rows: measured.map((each) => [
          number(each.pending),
          number(each.ended),
          each.tookMs.p50.toFixed(3),
          each.tookMs.p95.toFixed(3),
          number(ratioOf(each)),
        ]),
      },
    ],
    verdicts: [
      verdict('by pending', worst(measured.filter(({ ended }) => ended === 0))),
      verdict('by ended', worst(measured.filter(({ ended }) => ended > 0))),
    ],
    notes: ['Through the store, as the dispatcher claims, with the commit to disk.'],
    data: measured,
  }
}

function giveUp(error: Error): never {
  throw error
}
