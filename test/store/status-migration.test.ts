import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { listMigrations } from '../../src/store/sqlite/migrations.ts'
import { tempFolder } from '../support/sqlite.ts'

test('an older database keeps its open breakers with their failures, and its dead letters of the last day', async (t) => {
  const folder = await tempFolder()
  const db = new DatabaseSync(join(folder.path, 'old.db'))
  t.after(async () => {
    db.close()
    await folder.remove()
  })
  const migrations = listMigrations()
  for (const { sql } of migrations.filter(({ version }) => version < 5)) db.exec(sql)
  const now = Date.now()
  const endpoint = db.prepare(
    `INSERT INTO endpoints (id, tenant, settings, secrets, breaker) VALUES (?, 'default', ?, x'', ?)`,
  )
  endpoint.run('ep_open', '{"breaker":{"threshold":7}}', '{"state":"open","openedAt":1,"until":2}')
  endpoint.run('ep_closed', '{"breaker":null}', '{"state":"closed","failures":2,"ramp":null}')
  const dead = db.prepare(`
    INSERT INTO deliveries (id, event_no, endpoint_no, position, status, version, received_at, settled_at, reason)
    VALUES ('dlv_x', 1, 1, 1, 'failed', 1, 1, ?, 'exhausted')`)
  for (const settledAt of [now, now, now - 3 * 86_400_000]) dead.run(settledAt)
  db.exec(migrations.find(({ version }) => version === 5)?.sql ?? '')
  const failures = db.prepare(`SELECT json_extract(breaker, '$.failures') AS failures FROM endpoints ORDER BY no`).all()
  assert.deepEqual(
    failures.map((row) => row.failures),
    [7, 2],
  )
  const counted = db.prepare('SELECT sum(count) AS count, min(reason) AS reason FROM dead_letter_hours').get()
  assert.deepEqual([counted?.count, counted?.reason], [2, 'exhausted'])
})
