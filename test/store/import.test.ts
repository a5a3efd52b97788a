import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { loadConfig } from '../../src/config.ts'
import { type ImportReport, runImport } from '../../src/store/import.ts'
import { databaseAt } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint, t0 } from '../support/builders.ts'
import { aSchema, noPostgres, query } from '../support/postgres.ts'
import { openPostgres, testKey } from '../support/postgres-store.ts'
import { assertSame, deliverAll, fillRichly, newIds, type Rich, readAll } from '../support/rich-store.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

type Scene = Readonly<{ file: string; url: string; rich: Rich }>

async function sceneFor(t: TestContext): Promise<Scene> {
  const folder = await tempFolder()
  const place = await aSchema()
  t.after(() => place.drop())
  t.after(() => folder.remove())
  const file = join(folder.path, 'posthorn.db')
  const store = await openStoreFile(file)
  const rich = await fillRichly(store)
  await store.close()
  return { file, url: place.url, rich }
}

const sqlite = (path: string, encryptionKey: Uint8Array | null = null) =>
  databaseAt({ database: { kind: 'sqlite', path }, encryptionKey })
const postgres = (url: string, encryptionKey: Uint8Array | null = testKey) =>
  databaseAt({ database: loadConfig({ flags: { database: url }, env: {} }).database, encryptionKey })

type Given = Readonly<{ key?: Uint8Array; otherKey?: Uint8Array; dryRun?: boolean }>

async function imported({ file, url }: Pick<Scene, 'file' | 'url'>, given: Given = {}): Promise<ImportReport> {
  const source = await sqlite(file, given.key ?? null).openExport(given.otherKey ?? null)
  try {
    const target = await postgres(url).openImport()
    try {
      return await runImport(source, target, { dryRun: given.dryRun ?? false, now: () => t0, onProgress: () => {} })
    } finally {
      await target.close()
    }
  } finally {
    source.close()
  }
}

async function bothOf(t: TestContext, { file, url }: Scene): Promise<readonly [Store, Store]> {
  const there = await openPostgres({ url })
  t.after(() => there.close())
  const here = await openStoreFile(file)
  t.after(() => here.close())
  return [here, there]
}

describe('an import into Postgres', { skip: noPostgres() ?? false }, () => {
  test('brings everything, and both databases go on in the same way', async (t) => {
    const scene = await sceneFor(t)
    const before = readFileSync(scene.file)
    const report = await imported(scene)
    assert.equal(report.kind, 'done', JSON.stringify(report, null, 1))
    assert.deepEqual(readFileSync(scene.file), before)
    const [here, there] = await bothOf(t, scene)
    const read = await readAll(here)
    assertSame(await readAll(there), read)
    assert.ok(read.deliveries.length > 1_000 && read.replays.length === 5 && read.conditions.length === 2)
    await finishReplays([here, there], scene.rich)
    assertSame(await readAll(there), await readAll(here))
    const late = ['key:a', 'key:new'].map((lane) => anArrival(scene.rich.ordered, { delivery: { lane } }))
    for (const store of [here, there]) await store.append(late)
    for (const endpoint of scene.rich.endpoints) {
      const [a, b] = [await deliverAll(here, endpoint), await deliverAll(there, endpoint)]
      assertSame(b, a)
      if (endpoint === scene.rich.ordered) assert.equal(a.lanes['key:a']?.at(-1), late[0]!.deliveries[0]!.id)
    }
    assertSame(await readAll(there), await readAll(here))
  })

  test('knows keys and origins again, and gives no number twice', async (t) => {
    const scene = await sceneFor(t)
    await imported(scene)
    const [here, there] = await bothOf(t, scene)
    const [endpoint] = scene.rich.endpoints
    const idempotency = { scope: 'default', key: 'order-1', fingerprint: 'f', expiresAt: t0 + 1e9 }
    const repeats = [
      anArrival(endpoint!, { idempotency }),
      anArrival(endpoint!, { origin: { scope: 'outbox', id: '17' } }),
    ]
    assert.deepEqual(await there.append(repeats), await here.append(repeats))
    await there.putEntry('endpoint', anEndpoint(), 0)
    const [row] = await query<{ most: number; heads: string }>(
      scene.url,
      `select (select max(no) from endpoints) as most,
         (select count(*) from (select endpoint, lane from live where lane is not null group by 1, 2
           having count(*) filter (where due_at is not null) <> 1) wrong) as heads`,
    )
    assert.ok(row!.most > scene.rich.endpoints.length)
    assert.equal(row!.heads, '0')
    const next = await query<{ ok: boolean }>(scene.url, `select nextval('positions') > max(position) as ok from live`)
    assert.deepEqual(next, [{ ok: true }])
  })

  test('takes over what is older than some of the rules: two handlers of one name, replays without counts', async (t) => {
    const scene = await sceneFor(t)
    const { DatabaseSync } = await import('node:sqlite')
    const db = new DatabaseSync(scene.file)
    db.exec(`
      UPDATE replays SET delivered = NULL, failed_again = NULL WHERE status = 'cancelled';
      INSERT INTO endpoints (id, tenant) SELECT 'ep_twin', tenant FROM registry r JOIN endpoints p ON p.id = r.id
        WHERE r.kind = 'endpoint' AND name IS NOT NULL;
      INSERT INTO registry (kind, id, version, scope, name, settings, secrets)
        SELECT 'endpoint', 'ep_twin', 1, NULL, NULL, json_set(settings, '$.id', 'ep_twin'), NULL FROM registry
        WHERE kind = 'endpoint' AND name IS NOT NULL`)
    db.close()
    assert.equal((await imported(scene)).kind, 'done')
    const [here, there] = await bothOf(t, scene)
    assertSame(await readAll(there), await readAll(here))
    for (const store of [here, there]) {
      const { deleted } = await store.prune({ what: 'replays', before: t0 + 1e9, limit: 10, after: null })
      assert.equal(deleted, 1)
    }
  })

  test('goes on after every kill, and ends with the same', async (t) => {
    const scene = await sceneFor(t)
    const importer = join(import.meta.dirname, 'importer.ts')
    let runs = 0
    for (let isDone = false; !isDone; runs++) {
      const middle = runs % 2 === 0 ? [] : [String(runs % 7)]
      const ended = spawnSync(process.execPath, [importer, scene.file, scene.url, '3', ...middle], { encoding: 'utf8' })
      isDone = ended.status === 0
      if (!isDone) {
        assert.equal(ended.signal, 'SIGKILL', ended.stderr)
        const refused = { code: 'store_locked', message: /import .* not finished: run posthorn import again/ }
        if (runs === 2) await assert.rejects(openPostgres({ url: scene.url }), refused)
      }
    }
    assert.ok(runs > 3, `${runs} runs`)
    assert.equal((await imported(scene)).kind, 'was_done')
    const [here, there] = await bothOf(t, scene)
    assertSame(await readAll(there), await readAll(here))
  })

  test('a dry run counts and changes nothing, and a second import says that it is done', async (t) => {
    const scene = await sceneFor(t)
    const counted = await imported(scene, { dryRun: true })
    assert.ok(counted.kind === 'counted' && counted.counts.events > 1_100 && counted.counts.endpoints === 5)
    assert.equal(await postgres(scene.url).exists(), false)
    assert.equal((await imported(scene)).kind, 'done')
    for (const dryRun of [true, false]) assert.equal((await imported(scene, { dryRun })).kind, 'was_done')
  })

  test('finds out what differs, and lets no server start there', async (t) => {
    const scene = await sceneFor(t)
    const source = await sqlite(scene.file).openExport(null)
    t.after(() => source.close())
    const target = await postgres(scene.url).openImport()
    t.after(() => target.close())
    const write: typeof target.write = async (kind, records, step) => {
      await target.write(kind, records, step)
      if (kind === 'attempts')
        await query(
          scene.url,
          `update ended set last_error = 'other' where id = (select id from ended order by id desc limit 1)`,
        )
    }
    const spoiling = Object.assign(Object.create(target), { write })
    for (const name of ['find', 'begin', 'read', 'finish'] as const) spoiling[name] = target[name].bind(target)
    const report = await runImport(source, spoiling, { dryRun: false, now: () => t0, onProgress: () => {} })
    assert.ok(report.kind === 'differs')
    assert.deepEqual(
      report.compared.filter(({ isSame }) => !isSame).map(({ kind }) => kind),
      ['deliveries'],
    )
    await assert.rejects(openPostgres({ url: scene.url }), { code: 'store_locked' })
  })
})

describe('an import is refused', { skip: noPostgres() ?? false }, () => {
  test('where there is other data, or a server runs, before anything is written', async (t) => {
    const scene = await sceneFor(t)
    const other = await openPostgres({ url: scene.url })
    await assert.rejects(imported(scene), { code: 'store_locked', message: /A server runs on .* stop it/ })
    await other.putEntry('endpoint', anEndpoint(), 0)
    await other.leave()
    await other.close()
    await assert.rejects(imported(scene), {
      code: 'conflict',
      message: /data of its own already \(endpoints, registry\)/,
    })
    assert.deepEqual(await query(scene.url, 'select count(*)::int as n from endpoints'), [{ n: 1 }])
    assert.deepEqual(await query(scene.url, `select name from settings where name = 'import'`), [])
  })

  test('while a server owns the file', async (t) => {
    const scene = await sceneFor(t)
    const store = await openStoreFile(scene.file)
    t.after(() => store.close())
    const refused = { code: 'store_locked', message: /process \d+.* owns .*posthorn\.db\. Stop that server/ }
    await assert.rejects(imported(scene), refused)
    await assert.rejects(imported(scene, { dryRun: true }), refused)
    assert.equal(await postgres(scene.url).exists(), false)
  })

  test('with a key that does not fit, and works with one that is given', async (t) => {
    const scene = await sceneFor(t)
    const wrong = { code: 'store_wrong_key', message: /No key that fits .*--from-key.*POSTHORN_IMPORT_KEY/ }
    await assert.rejects(imported(scene, { key: randomBytes(32) }), wrong)
    const key = Buffer.from(readFileSync(`${scene.file}.key`, 'utf8'), 'base64')
    rmSync(`${scene.file}.key`)
    await assert.rejects(imported(scene), wrong)
    assert.equal(await postgres(scene.url).exists(), false)
    assert.equal((await imported(scene, { key, dryRun: true })).kind, 'counted')
    assert.equal((await imported(scene, { otherKey: key })).kind, 'done')
  })

  test('when the file has changed since, or is another one', async (t) => {
    const scene = await sceneFor(t)
    assert.equal((await imported(scene)).kind, 'done')
    const { file: other } = await sceneFor(t)
    await assert.rejects(imported({ ...scene, file: other }), { message: /import of another database/ })
    await (await openStoreFile(scene.file)).close()
    await assert.rejects(imported(scene), { message: /has changed since it was imported/ })
  })

  test('of what is no database, or an older one', async (t) => {
    const scene = await sceneFor(t)
    await assert.rejects(imported({ ...scene, file: `${scene.file}.not` }), { code: 'store_missing' })
    writeFileSync(`${scene.file}.not`, '')
    await assert.rejects(imported({ ...scene, file: `${scene.file}.not` }), /is empty/)
    copyFileSync(scene.file, `${scene.file}.old`)
    const { DatabaseSync } = await import('node:sqlite')
    const db = new DatabaseSync(`${scene.file}.old`)
    db.exec(
      `DELETE FROM migrations WHERE version = (SELECT max(version) FROM migrations); DELETE FROM settings WHERE name = 'file'`,
    )
    db.close()
    await assert.rejects(imported({ ...scene, file: `${scene.file}.old` }), /run posthorn migrate/)
    await assert.rejects(postgres(scene.url).openExport(null), /Only a SQLite file/)
    await assert.rejects(sqlite(scene.file).openImport(), /needs a Postgres database/)
  })
})

/** Steps all jobs to their end, on both in the same way. */
async function finishReplays(stores: readonly Store[], { recovered }: Rich): Promise<void> {
  const recover = { types: recovered.types, tenant: recovered.tenant, ordering: recovered.ordering }
  const running = await stores[0]!.listReplays({ status: 'running', limit: 100 })
  for (const { id, selection } of running.items) {
    for (let steps = 0; steps < 5; steps++) {
      const newOnes = newIds(10)
      const step = {
        id,
        limit: 10,
        now: t0 + 300 + steps,
        recover: selection.kind === 'recover' ? recover : null,
        newIds: newOnes,
      }
      for (const store of stores) await store.stepReplay(step)
    }
    for (const store of stores) assert.notEqual((await store.getReplay(id))?.status, 'running')
  }
}
