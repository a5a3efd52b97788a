import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { createSecretBox, loadOrCreateKey } from '../../src/store/secret-box.ts'
import { listMigrations } from '../../src/store/sqlite/migrations.ts'
import { aHandler, anEndpoint, anId, aSource, t0 } from '../support/builders.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

test('an older database keeps its endpoints, sources, relays and keys with their secrets', async (t) => {
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const file = join(folder.path, 'old.db')
  const box = createSecretBox(loadOrCreateKey(`${file}.key`))
  const db = new DatabaseSync(file)
  db.exec('CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT')
  for (const { version, name, sql } of listMigrations().filter(({ version }) => version < 6)) {
    db.exec(sql)
    db.prepare('INSERT INTO migrations (version, name) VALUES (?, ?)').run(version, name)
  }
  db.prepare(`INSERT INTO settings (name, value) VALUES ('key_check', ?)`).run(box.seal('posthorn', 'key_check'))
  const endpoint = anEndpoint({ headers: { authorization: 'Bearer a' } })
  const handler = aHandler({ tenant: 'acme', handler: 'invoice' })
  const twin = { ...handler, id: anId('ep') }
  const removed = anEndpoint()
  const putEndpoint = db.prepare(
    'INSERT INTO endpoints (id, tenant, settings, secrets, breaker, removed) VALUES (?, ?, ?, ?, ?, ?)',
  )
  const breaker = { state: 'closed', failures: 2, ramp: null }
  for (const { secrets, headers, ...settings } of [endpoint, handler, twin, removed]) {
    const { id, tenant } = settings
    const sealed = box.seal(JSON.stringify({ secrets, headers }), id)
    putEndpoint.run(id, tenant, JSON.stringify(settings), sealed, JSON.stringify(breaker), Number(id === removed.id))
  }
  const source = aSource({ name: 'main' })
  const { secrets, ...settings } = source
  const sealed = box.seal(JSON.stringify(secrets), source.id)
  const putSource = db.prepare('INSERT INTO sources (id, name, settings, secrets) VALUES (?, ?, ?, ?)')
  putSource.run(source.id, source.name, JSON.stringify(settings), sealed)
  const relay = { id: anId('rly'), name: 'home', tenant: 'acme', hash: 'ab', createdAt: t0 }
  const putRelay = db.prepare('INSERT INTO relays (id, tenant, name, settings) VALUES (?, ?, ?, ?)')
  putRelay.run(relay.id, relay.tenant, relay.name, JSON.stringify(relay))
  const key = { id: anId('key'), name: 'ci', role: 'send', tenant: null, hash: 'cd', createdAt: t0 } as const
  db.prepare('INSERT INTO api_keys (id, settings) VALUES (?, ?)').run(key.id, JSON.stringify(key))
  db.close()

  const store = await openStoreFile(file)
  t.after(() => store.close())
  const kept = [endpoint, handler, twin].map((item) => ({ item, version: 1 }))
  assert.deepEqual(await store.listEntries('endpoint'), kept)
  assert.deepEqual(await store.listEntries('source'), [{ item: source, version: 1 }])
  assert.deepEqual(await store.listEntries('relay'), [{ item: relay, version: 1 }])
  assert.deepEqual(await store.listEntries('key'), [{ item: key, version: 1 }])
  assert.equal((await store.listConditions()).length, 3)
  assert.equal(await store.putEntry('source', { ...source, description: 'changed' }, 1), 2)
  assert.equal((await store.listEntries('source'))[0]?.item.secrets.length, source.secrets.length)
  const taken = { code: 'conflict' }
  await assert.rejects(store.putEntry('source', aSource({ name: 'main' }), 0), taken)
  await assert.rejects(store.putEntry('relay', { ...relay, id: anId('rly') }, 0), taken)
  await assert.rejects(store.putEntry('endpoint', { ...handler, id: anId('ep') }, 0), taken)
  await assert.rejects(store.putEntry('endpoint', removed, 0), taken, 'its deliveries have its id')
})
