import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { Bodies } from '../../src/store/bodies.ts'
import { ClaimWork } from '../../src/store/postgres/claim.ts'
import { ClaimFloors } from '../../src/store/postgres/claim-floors.ts'
import { EndpointTable } from '../../src/store/postgres/endpoints.ts'
import type { Store } from '../../src/store/store.ts'
import { lease, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered, t0 } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'
import { Writer } from './postgres-writer.ts'

const rows = 200_000
const batch = 64
/** A row of a batch costs that many rows and index entries at most, whatever the tables hold. */
const readsPerRowMax = 40
const warmUps = 12
const growing = ['live', 'ended', 'events', 'attempts', 'lane_slots', 'idempotency_keys', 'origins']

/** A connection with plans of its own, and what is called on it. */
class Warmed {
  readonly writer: Writer
  readonly claims: ClaimWork
  readonly floors: ClaimFloors

  static async open(scene: PostgresScene, floors = new ClaimFloors()): Promise<Warmed> {
    const writer = await Writer.open(scene)
    const endpoints = new EndpointTable(writer.client, scene.schema)
    await endpoints.reload()
    const bodies = new Bodies(async () => null)
    const membership = { member: () => 0, isMine: () => true }
    const parts = { on: writer.client, schema: scene.schema, endpoints, bodies, floors, ...membership }
    return new Warmed(writer, new ClaimWork(parts), floors)
  }

  private constructor(writer: Writer, claims: ClaimWork, floors: ClaimFloors) {
    this.floors = floors
    this.writer = writer
    this.claims = claims
  }

  async claim(endpoint: HttpEndpoint, limit = batch) {
    const request = { from: { endpointId: endpoint.id }, now: t0, leaseEndsAt: lease, limit, bytesMax: 1e9 }
    return (await this.claims.run(request)).claims
  }

  /** Only now has everything that it read been counted. */
  async end(scene: PostgresScene): Promise<void> {
    const [row] = (await this.writer.client.query('SELECT pg_backend_pid() AS pid')).rows
    await this.writer.client.end()
    const others = 'SELECT FROM pg_stat_activity WHERE pid <> $1 AND pid = pg_backend_pid()'
    await scene.untilRows(1, `${others} AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, [row.pid])
  }
}

describe('plans made while the tables were empty', { skip: noPostgres() ?? false, timeout: 120_000 }, () => {
  let scene: PostgresScene
  let endpoint: HttpEndpoint
  let store: Store
  const stack = new AsyncDisposableStack()
  const warmed = new Map<string, Warmed>()
  after(() => stack.disposeAsync())

  const inLanes = (name: string, count = batch) =>
    Array.from({ length: count }, (_, at) => anArrival(endpoint, { delivery: { lane: `${name}${at}` } }))

  /** With `print` 0 it is what was accepted first, with 1 a repeat too, with 2 a conflict. */
  const withKey = (key: string, print = 0) =>
    anArrival(endpoint, {
      idempotency: { scope: 'default', key, fingerprint: print === 2 ? 'other' : 'same', expiresAt: lease },
      origin: { scope: 'outbox', id: `${key} ${print}` },
    })

  before(async () => {
    scene = await PostgresScene.open({ after: (dispose: () => Promise<void>) => stack.defer(dispose) } as never)
    store = await scene.store()
    endpoint = await withEndpoint(store)
    const other = await withEndpoint(store)
    for (const table of growing) await scene.query(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`)
    for (const name of ['claim', 'commit', 'append', 'append with keys', 'backlog']) {
      const one = await Warmed.open(scene)
      warmed.set(name, one)
      for (let times = 0; times < warmUps; times++) {
        await one.writer.append(inLanes('warm', 2))
        for (let again = 0; again < 3; again++) await one.writer.append([withKey(`warm${times}`, again)])
        await one.writer.commit((await one.claim(endpoint)).map((claim) => delivered(claim)))
        await one.claims.backlog(t0)
      }
    }
    await store.append([anArrival(other)])
    await scene.query(`
      WITH made AS (
        INSERT INTO events (id, received_at, size, tenant, type, content_type, body)
          SELECT (left(gen_random_uuid()::text, 32) || '0000')::uuid, ${t0}, 2, 'default', 'order.created', 'application/json', '{}'
          FROM generate_series(1, ${rows}) RETURNING id
      ), numbered AS (SELECT id, row_number() OVER () AS n FROM made)
      INSERT INTO live (id, event_id, received_at, due_at, position, endpoint, version, size, lane)
        SELECT id, id, ${t0}, CASE WHEN n % 4 = 1 THEN NULL ELSE ${t0} - (n / 4) % 1000 END, n,
          (SELECT no FROM endpoints ORDER BY no LIMIT 1), 1, 2, CASE WHEN n % 4 < 2 THEN 'key:' || n / 4 END
        FROM numbered`)
    await scene.query(`
      INSERT INTO ended (id, event_id, received_at, settled_at, endpoint, version, attempts, tries_in_budget, size, status)
        SELECT gen_random_uuid(), gen_random_uuid(), ${t0}, ${t0}, 1, 3, 1, 1, 2, 'delivered'
        FROM generate_series(1, ${rows})`)
    await scene.query(`
      INSERT INTO idempotency_keys (scope, key, fingerprint, event_id, deliveries, received_at, expires_at)
        SELECT 'default', 'key:' || n, 'same', (left(gen_random_uuid()::text, 32) || '0000')::uuid, 1, ${t0}, ${lease}
        FROM generate_series(0, ${rows}) AS n`)
  })

  /** Of rows and index entries, so far. */
  async function reads(): Promise<number> {
    const [row] = await scene.query<{ read: number }>(
      `SELECT ((SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables
           WHERE schemaname = $1 AND relname = ANY ($2))
         + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = $1 AND relname = ANY ($2)))::float AS read`,
      [scene.schema, growing],
    )
    return row!.read
  }

  const promise = (name: string, call: (one: Warmed) => Promise<number>) => {
    it(`${name} reads as much as its batch, not as the table`, async (t) => {
      const one = warmed.get(name)!
      const readBefore = await reads()
      const size = await call(one)
      await one.end(scene)
      const read = (await reads()) - readBefore
      t.diagnostic(`${read} read for ${size}`)
      assert.ok(read > 0 && read <= size * readsPerRowMax, `${read} read for ${size}`)
    })
  }

  promise('claim', async (one) => {
    const claims = await one.claim(endpoint)
    assert.equal(claims.length, batch)
    return batch
  })

  promise('commit', async (one) => {
    const claims = await one.claim(endpoint)
    const results = await one.writer.commit(claims.map((claim) => delivered(claim)))
    assert.equal(results.filter(({ kind }) => kind === 'applied').length, batch)
    assert.ok(claims.some(({ delivery }) => delivery.lane !== null))
    return 2 * batch
  })

  promise('append', async (one) => {
    // Half of them behind others.
    const appended = await one.writer.append([...inLanes('key:', batch / 2), ...inLanes('new:', batch / 2)])
    assert.equal(appended.kind, 'kept')
    return batch
  })

  promise('append with keys', async (one) => {
    const some = (name: string, count: number) => Array.from({ length: count }, (_, at) => withKey(`${name}${at}`, 1))
    const appended = await one.writer.append([...some('key:', batch / 2), ...some('new:', batch / 2)])
    assert.ok(appended.kind === 'kept')
    assert.equal(appended.items.filter(({ duplicate }) => duplicate).length, batch / 2)
    const conflict = await one.writer.append([...some('later:', batch - 1), withKey('key:1', 2)])
    assert.equal(conflict.kind, 'conflict')
    return 2 * batch
  })

  promise('backlog', async (one) => {
    assert.equal((await one.claims.backlog(t0)).length, 2)
    // Before the first of an endpoint it meets what was claimed since the last vacuum.
    return batch
  })

  it('claims stay flat while somebody holds a snapshot', async (t) => {
    const busy = await withEndpoint(store)
    const holder = await scene.other()
    await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await holder.query('SELECT txid_current()')
    const one = await Warmed.open(scene)
    const passed = 50_000
    await scene.query(
      `INSERT INTO live (id, event_id, received_at, due_at, endpoint, version, size)
         SELECT gen_random_uuid(), gen_random_uuid(), $2::bigint, $2::bigint - n, (SELECT no FROM endpoints WHERE id = $1), 1, 2
         FROM generate_series(1, $3::int) AS n`,
      [busy.id, t0 - 60_000, passed],
    )
    const mine = 'endpoint = (SELECT no FROM endpoints WHERE id = $1)'
    await scene.query(`UPDATE live SET owner = 1, due_at = due_at + 1000 WHERE ${mine}`, [busy.id])
    await scene.query(`DELETE FROM live WHERE ${mine}`, [busy.id])
    const first = await reads()
    assert.deepEqual(await one.claim(busy), [])
    await one.end(scene)
    assert.ok((await reads()) - first >= passed, 'they are all still there')

    const before = await reads()
    const other = await Warmed.open(scene)
    assert.deepEqual(await other.claim(busy), [])
    await store.append([anArrival(busy)])
    const claims = 100
    for (let count = 0; count < claims; count++) assert.equal((await other.claim(busy)).length, count === 0 ? 1 : 0)
    await other.end(scene)
    const read = (await reads()) - before
    t.diagnostic(`${read} read for ${claims + 1} claims`)
    assert.ok(read < 4 * passed, `${read} read for ${claims + 1} claims`)
    await holder.query('ROLLBACK')
  })

  it('what became due below a floor is found half a minute later, or when something says so', async () => {
    const busy = await withEndpoint(store)
    let nowMs = 0
    const one = await Warmed.open(scene, new ClaimFloors(() => nowMs))
    const numbers = await scene.query<{ no: number }>('SELECT no FROM endpoints WHERE id = $1', [busy.id])
    const late = () => anArrival(busy, { delivery: { dueAt: t0 - 60_000 } })
    one.floors.raise(numbers[0]!.no, t0, t0)
    await store.append([late(), anArrival(busy)])
    assert.equal((await one.claim(busy)).length, 1)
    nowMs = 29_999
    assert.equal((await one.claim(busy)).length, 0)
    nowMs = 30_000
    assert.equal((await one.claim(busy)).length, 1)
    one.floors.raise(numbers[0]!.no, t0, t0)
    await store.append([late()])
    assert.equal((await one.claim(busy)).length, 0)
    one.claims.lookBelow([numbers[0]!.no])
    assert.equal((await one.claim(busy)).length, 1)
  })
})
