import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { listMigrations } from '../../src/store/postgres/migrations.ts'
import { withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'
import { Writer } from './postgres-writer.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const [last] = listMigrations().slice(-1)

/** A schema as the Posthorn before this one has left it. */
async function before(t: TestContext): Promise<PostgresScene> {
  const scene = await PostgresScene.open(t)
  const client = await scene.other()
  await client.query(`CREATE TABLE migrations (
    version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
  for (const { version, name, sql } of listMigrations().slice(0, -1)) {
    await client.query(sql)
    await client.query('INSERT INTO migrations (version, name) VALUES ($1, $2)', [version, name])
  }
  return scene
}

describe('an upgrade', limits, () => {
  it('by four processes at once, while an older one writes, is made once and stops nothing', async (t) => {
    const scene = await before(t)
    const endpoint = anEndpoint()
    await scene.query('INSERT INTO endpoints (id, tenant) VALUES ($1, $2)', [endpoint.id, endpoint.tenant])
    const older = await Writer.open(scene)
    let isOver = false
    let appended = 0
    const writing = (async () => {
      while (!isOver) {
        assert.equal((await older.append([anArrival(endpoint), anArrival(endpoint)])).kind, 'kept')
        appended += 2
      }
    })()
    const stores = await Promise.all(Array.from({ length: 4 }, () => scene.store()))
    const until = appended + 20
    while (appended < until) await new Promise((resolve) => setImmediate(resolve))
    const newer = await withEndpoint(stores[0]!)
    for (const store of stores) assert.equal((await store.append([anArrival(newer)])).kind, 'kept')
    isOver = true
    await writing
    assert.deepEqual(await scene.query('SELECT count(*)::int FROM events'), [{ count: appended + stores.length }])
    assert.deepEqual(await scene.query('SELECT name FROM migrations WHERE version = $1', [last!.version]), [
      { name: last!.name },
    ])
  })

  it('takes nothing away that a process before it calls', () => {
    const names = new Set<string>()
    for (const { name, sql } of listMigrations()) {
      assert.doesNotMatch(sql, /\bDROP\s+(?:FUNCTION|TABLE|COLUMN|VIEW)|\bOR\s+REPLACE\s+FUNCTION|\bRENAME\b/i, name)
      for (const [, made = ''] of sql.matchAll(/CREATE FUNCTION (\w+)/g)) {
        assert.ok(!names.has(made), `${made} is made twice`)
        names.add(made)
      }
    }
    assert.ok(names.has('append_v1'))
  })
})
