import assert from 'node:assert/strict'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Claim, ClaimRequest } from '../../src/store/pipeline-store.ts'
import { ClaimWork } from '../../src/store/sqlite/claim.ts'
import { EndpointTable } from '../../src/store/sqlite/endpoints.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Bench, Figure } from '../bench.ts'
import { describeRows, multiplyPending } from '../fill.ts'
import { number } from '../report.ts'
import { type Latency, latencyOf } from '../statistics.ts'
import { appendPending, benchEndpoints } from '../store-contents.ts'

const leaseMs = 60_000
const bytesMax = 64 * 1024 * 1024
const batches = [20, 100] as const

/** `port`: through the store, disk and threads included. `bare`: the statements alone, where a slow disk hides nothing. */
type Way = 'port' | 'bare'
type Backlog = Readonly<{ pending: number; file: string; fillS: number }>
type Measured = Readonly<{ pending: number; way: Way; batch: number; tookMs: Latency }>

/** One claim: how many milliseconds it took; what it claimed is put back before it answers. */
type ClaimOnce = (batch: number) => Promise<number>
type Open = Readonly<{ claimOnce: ClaimOnce; close: () => Promise<void> }>

/** Figure 3: what it costs to claim a batch for one endpoint among several, whatever waits. */
export const claimCost: Figure = {
  name: 'claim-cost',
  title: 'cost of a claim by number of pending deliveries, warm, one endpoint among four',
  async measure(bench) {
    await assertSameRows(bench)
    const sizes = bench.quick ? [1_000, 100_000, 1_000_000] : [1_000, 100_000, 1_000_000, 10_000_000]
    const backlogs: Backlog[] = []
    for (const pending of sizes) backlogs.push(await makeBacklog(bench, pending))
    const port = await measureAll(bench, backlogs, 'port', openPort)
    const bare = await measureAll(bench, backlogs, 'bare', openBare)
    return judge(backlogs, [...port, ...bare])
  },
}

/** A backlog made by copying must have the rows that `append` would have written. */
async function assertSameRows(bench: Bench): Promise<void> {
  const appended = path.join(bench.rig.tempDir(), 'appended.db')
  const copied = path.join(bench.rig.tempDir(), 'copied.db')
  await fill(appended, 1_000)
  await fill(copied, benchEndpoints.length)
  await multiplyPending(copied, 1_000 - benchEndpoints.length)
  assert.deepEqual(describeRows(copied), describeRows(appended))
  bench.say('  copied rows are like appended ones')
}

async function fill(file: string, count: number): Promise<void> {
  const opened = await openSqliteStore({ file, key: null, onFatal: giveUp })
  try {
    await appendPending(opened, count)
  } finally {
    await opened.store.close()
  }
}

async function makeBacklog(bench: Bench, pending: number): Promise<Backlog> {
  const file = path.join(bench.rig.tempDir(), 'claims.db')
  const startedAt = performance.now()
  await fill(file, benchEndpoints.length)
  await multiplyPending(file, pending - benchEndpoints.length)
  const fillS = (performance.now() - startedAt) / 1000
  bench.say(`  ${number(pending)} pending: filled in ${number(fillS)} s`)
  return { pending, file, fillS }
}

/** All sizes are open at once and measured by turns: neither a warmer compiler nor a busier machine favours one. */
async function measureAll(
  bench: Bench,
  backlogs: readonly Backlog[],
  way: Way,
  open: (file: string) => Promise<Open>,
): Promise<readonly Measured[]> {
  const opened: Open[] = []
  try {
    for (const { file } of backlogs) opened.push(await open(file))
    const measured: Measured[] = []
    for (const batch of batches) {
      const tookMs = await byTurns(opened, batch, bench.quick ? 4 : 10)
      measured.push(
        ...backlogs.map(({ pending }, at) => ({ pending, way, batch, tookMs: latencyOf(tookMs[at] ?? []) })),
      )
    }
    return measured
  } finally {
    for (const { close } of opened) await close()
  }
}

const claimsPerTurn = 60
const warmUpsPerTurn = 10

async function byTurns(opened: readonly Open[], batch: number, turns: number): Promise<readonly number[][]> {
  const tookMs: number[][] = opened.map(() => [])
  // The first turn warms up compilers and caches and is not counted.
  for (let turn = 0; turn <= turns; turn++) {
    for (const [at, { claimOnce }] of opened.entries()) {
      for (let i = -warmUpsPerTurn; i < claimsPerTurn; i++) {
        const took = await claimOnce(batch)
        if (turn > 0 && i >= 0) tookMs[at]?.push(took)
      }
    }
  }
  return tookMs
}

function requestFor(batch: number, now: number): ClaimRequest {
  const endpointId = benchEndpoints[1]?.id ?? ''
  return { from: { endpointId }, now, leaseEndsAt: now + leaseMs, limit: batch, bytesMax }
}

async function openPort(file: string): Promise<Open> {
  const { store } = await openSqliteStore({ file, key: null, onFatal: giveUp })
  const claimOnce = async (batch: number) => {
    const now = Date.now()
    const startedAt = performance.now()
    const { claims } = await store.claim(requestFor(batch, now))
    const tookMs = performance.now() - startedAt
    assert.equal(claims.length, batch)
    await putBack(store, claims, now)
    return tookMs
  }
  return { claimOnce, close: () => store.close() }
}

/** To the tail, so that the number that waits stays the same and every claim meets other rows. */
async function putBack(store: Store, claims: readonly Claim[], now: number): Promise<void> {
  const changes = claims.map(({ delivery }) => {
    const { leaseEndsAt: _, ...facts } = delivery
    const to = { ...facts, status: 'pending' as const, dueAt: now, version: delivery.version + 1 }
    return { to, attempt: null, claimNext: null }
  })
  for (const result of await store.commit(changes)) assert.equal(result.kind, 'applied')
}

async function openBare(file: string): Promise<Open> {
  const db = new DatabaseSync(file)
  // The cache is the writer's own; without syncs only the work itself is left.
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384; PRAGMA mmap_size = 0')
  const work = new ClaimWork(db, new EndpointTable(db))
  const back = db.prepare(`
    UPDATE deliveries SET status = 'pending', version = version + 1, due_at = ?1 WHERE no IN
      (SELECT no FROM deliveries WHERE status = 'processing' AND due_at = ?2)`)
  const claimOnce = async (batch: number) => {
    const request = requestFor(batch, Date.now())
    db.exec('BEGIN IMMEDIATE')
    const startedAt = performance.now()
    const { claims } = work.run(request)
    const tookMs = performance.now() - startedAt
    assert.equal(claims.length, batch)
    assert.equal(Number(back.run(request.now, request.leaseEndsAt).changes), batch)
    db.exec('COMMIT')
    return tookMs
  }
  return { claimOnce, close: async () => db.close() }
}

function judge(backlogs: readonly Backlog[], measured: readonly Measured[]) {
  const smallest = (each: Measured) =>
    measured.find((other) => other.pending === 1_000 && other.way === each.way && other.batch === each.batch)
  const ratioOf = (each: Measured) => each.tookMs.p50 / (smallest(each)?.tookMs.p50 ?? Number.NaN)
  const worst = (way: Way) => Math.max(...measured.filter((each) => each.way === way).map(ratioOf))
  return {
    tables: [
      {
        columns: ['pending', 'way', 'batch', 'p50 ms', 'p95 ms', 'p50 against 1 thousand'],
        rows: measured.map((each) => [
          number(each.pending),
          each.way,
          String(each.batch),
          each.tookMs.p50.toFixed(3),
          each.tookMs.p95.toFixed(3),
          number(ratioOf(each)),
        ]),
      },
    ],
    verdicts: [
      verdict('worst p50 against 1 thousand, through the store', worst('port')),
      verdict('worst p50 against 1 thousand, the statements alone', worst('bare')),
    ],
    notes: [
      '`port` is a claim as the dispatcher makes it, with its commit to disk; `bare` leaves disk and threads out.',
      `Fills took ${backlogs.map(({ fillS }) => number(fillS)).join(', ')} s.`,
    ],
    data: { backlogs, measured },
  }
}

function verdict(what: string, value: number) {
  return { what, value, wanted: 'at most' as const, must: 2, goal: null, unit: '×' }
}

function giveUp(error: Error): never {
  throw error
}
