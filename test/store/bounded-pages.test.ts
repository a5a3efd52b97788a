import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { migrate } from '../../src/store/sqlite/migrations.ts'
import { Reader } from '../../src/store/sqlite/reads.ts'
import { wholePage } from '../../src/store/whole-page.ts'

const rows = 25_000

/** As many events and deliveries, of which the oldest alone is of the type `rare.one`. */
function filled(): DatabaseSync {
  const db = new DatabaseSync(':memory:')
  migrate(db, ':memory:', { dryRun: false })
  db.exec(`
    INSERT INTO endpoints (id, tenant) VALUES ('ep_1', 'a');
    WITH RECURSIVE n (no) AS (SELECT 1 UNION ALL SELECT no + 1 FROM n WHERE no < ${rows})
    INSERT INTO events (no, id, tenant, type, received_at, content_type, size, body)
    SELECT no, 'evt_' || no, 'a', CASE no WHEN 1 THEN 'rare.one' ELSE 'usual.one' END, no, 'text/plain', 0, x'' FROM n;
    INSERT INTO deliveries (no, id, event_no, endpoint_no, position, status, version, received_at, settled_at, reason)
    SELECT no, 'dlv_' || no, no, 1, no, 'failed', 1, no, no, 'exhausted' FROM events;`)
  return db
}

test('a search that finds nothing soon is given up in between, so that other reads can come', async () => {
  const reader = new Reader(filled())
  for (const query of [{ type: 'rare.*' }, { tenant: 'nobody' }, { type: 'rare.one' }]) {
    const events = reader.listEvents({ ...query, limit: 5 })
    const deliveries = reader.listDeliveries({ ...query, statuses: ['failed', 'dead_letter'], limit: 5 })
    for (const { items, next } of [events, deliveries]) {
      assert.deepEqual(items, [])
      assert.ok(Number(next) > 1 && Number(next) < rows, `${next}`)
    }
  }
})

test('a page is put together from such pieces, and an old cursor goes on under another filter', async () => {
  const reader = new Reader(filled())
  const rare = { type: 'rare.*', limit: 5 }
  const page = await wholePage(rare, async (piece) => reader.listDeliveries({ ...rare, ...piece }))
  assert.deepEqual([page.items.map(({ delivery }) => delivery.id), page.next], [['dlv_1'], null])
  const { next } = reader.listDeliveries({ statuses: ['failed'], limit: 24_998 })
  const after = reader.listDeliveries({ type: '*.one', limit: 5, cursor: next! })
  assert.deepEqual(
    after.items.map(({ delivery }) => delivery.id),
    ['dlv_2', 'dlv_1'],
  )
})

test('a page that would take too many pieces is given as it is, with where to go on', async () => {
  let pieces = 0
  const page = await wholePage({ limit: 3 }, async ({ limit, cursor = '1000' }) => {
    pieces += 1
    return { items: pieces === 1 ? [limit] : [], next: String(Number(cursor) - 1) }
  })
  assert.deepEqual([page.items, pieces, page.next], [[3], 50, '950'])
})
