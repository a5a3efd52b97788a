import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listMigrations } from '../../src/store/sqlite/migrations.ts'
import { aReplay, t0 } from '../support/builders.ts'
import { Scene } from './scene.ts'

/** A file as an older Posthorn left it, before replays counted outcomes. */
function oldFile(scene: Scene, file: string): void {
  const db = scene.plain(file)
  db.exec('CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT')
  for (const { version, name, sql } of listMigrations().filter((one) => one.version < 3)) {
    db.exec(sql)
    db.prepare('INSERT INTO migrations (version, name) VALUES (?, ?)').run(version, name)
  }
  const { selection, rate, note, by } = aReplay({ kind: 'deliveries', filter: {} })
  db.prepare(`INSERT INTO replays (id, status, settings, matched, replayed, failed, last_no, created_at, updated_at, ended_at)
    VALUES ('rpl_old', 'finished', ?, 5, 4, 1, 9, ?, ?, ?)`).run(
    JSON.stringify({ selection, rate, note, by }),
    t0,
    t0,
    t0,
  )
  db.close()
}

test('a replay of an older version keeps its counts, and does not pretend to know its outcomes', async (t) => {
  const scene = new Scene(t)
  const file = await scene.newFile()
  oldFile(scene, file)
  const store = await scene.open(file)
  const {
    status,
    matched,
    requeued,
    skipped,
    delivered: good,
    failedAgain,
    settledAt,
  } = (await store.getReplay('rpl_old'))!
  assert.deepEqual([status, matched, requeued, skipped], ['finished', 5, 4, 1])
  assert.deepEqual([good, failedAgain, settledAt], [null, null, null])
  assert.deepEqual((await store.listReplays({ waiting: true, limit: 10 })).items, [])
  assert.equal((await store.prune({ what: 'replays', before: t0 + 1, limit: 10, after: null })).deleted, 1)
})
