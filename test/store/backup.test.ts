import assert from 'node:assert/strict'
import {
  chmodSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { backupFile } from '../../src/store/sqlite/backup-file.ts'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { itemsOf } from '../support/registry.ts'
import { integrityOf, isRoot, Scene } from './scene.ts'

async function stage(t: TestContext, events = 100) {
  const scene = new Scene(t)
  const file = await scene.newFile()
  const store = await scene.open(file)
  const endpoint = anEndpoint()
  await store.putEntry('endpoint', endpoint, 0)
  const kept = Array.from({ length: events }, () => anArrival(endpoint))
  await store.append(kept)
  return { scene, file, store, endpoint, kept, folder: await scene.folder() }
}

/** Writes one event after another until it is told to stop; answers how many. */
function keepWriting(store: Store, endpoint: ReturnType<typeof anEndpoint>): () => Promise<number> {
  let stopped = false
  const writing = (async () => {
    let count = 0
    for (; !stopped; count++) await store.append([anArrival(endpoint)])
    return count
  })()
  return () => {
    stopped = true
    return writing
  }
}

describe('a backup', () => {
  test('made while others write opens as a store with all that was acknowledged before', async (t) => {
    const { scene, file, store, endpoint, kept, folder } = await stage(t, 2_000)
    const stop = keepWriting(store, endpoint)
    const target = join(folder, 'copy.db')
    const report = await backupFile(file, target)
    const meanwhile = await stop()
    assert.ok(meanwhile > 0)
    assert.ok(report.events >= kept.length && report.events <= kept.length + meanwhile)
    assert.equal(report.deliveries, report.events)
    assert.equal(report.bytes, statSync(target).size)
    assert.equal(report.verified, true)
    assert.equal(integrityOf(target), 'ok')
    // The key is not in the database, and so not in its backup.
    await copyFile(`${file}.key`, `${target}.key`)
    const copy = await scene.open(target)
    assert.deepEqual(await itemsOf(copy, 'endpoint'), [endpoint])
    for (const { event, deliveries } of kept) {
      assert.ok(await copy.getEvent(event.id))
      assert.equal((await copy.getDelivery(deliveries[0]!.id))?.delivery.status, 'pending')
    }
    await copy.append([anArrival(endpoint)])
  })

  test('is for its owner alone, and leaves nothing else behind', async (t) => {
    const { file, folder } = await stage(t)
    await backupFile(file, join(folder, 'copy.db'))
    assert.equal(statSync(join(folder, 'copy.db')).mode & 0o777, 0o600)
    assert.deepEqual(readdirSync(folder), ['copy.db'])
  })

  test('can be made when nobody has the database open', async (t) => {
    const { file, folder, store, kept } = await stage(t)
    await store.close()
    assert.equal((await backupFile(file, join(folder, 'copy.db'))).events, kept.length)
  })

  test('tells how far it has come, and ends with all of it', async (t) => {
    const { file, folder } = await stage(t)
    const told: (readonly [number, number])[] = []
    const { bytes } = await backupFile(file, join(folder, 'copy.db'), (done, total) => told.push([done, total]))
    assert.deepEqual(told.at(-1), [bytes, bytes])
  })

  test('can give free space back to whoever opens it later', async (t) => {
    const { file, folder, scene } = await stage(t)
    await backupFile(file, join(folder, 'copy.db'))
    assert.equal(scene.plain(join(folder, 'copy.db')).prepare('PRAGMA auto_vacuum').get()?.auto_vacuum, 2)
  })
})

test('a backup that was killed does not keep the next one from its name', async (t) => {
  const { scene, file, folder, kept } = await stage(t, 20_000)
  const target = join(folder, 'copy.db')
  const killed = scene.other('backup-writer.ts', file, target)
  assert.equal(await killed.line(), 'copying')
  await killed.kill()
  assert.ok(existsSync(`${target}.part`))
  assert.equal((await backupFile(file, target)).events, kept.length)
  assert.deepEqual(readdirSync(folder), ['copy.db'])
})

describe('a backup is refused, with a sentence and without a trace,', () => {
  test('when there is a file of that name', async (t) => {
    const { file, folder } = await stage(t)
    const target = join(folder, 'copy.db')
    await writeFile(target, 'mine')
    await assert.rejects(backupFile(file, target), { code: 'invalid', message: /exists already; name another file/ })
    assert.equal(statSync(target).size, 4)
    assert.deepEqual(readdirSync(folder), ['copy.db'])
  })

  test('when a file of that name appears while it is made, which is not touched', async (t) => {
    const { file, folder } = await stage(t)
    const target = join(folder, 'copy.db')
    const backup = backupFile(file, target)
    writeFileSync(target, 'mine')
    await assert.rejects(backup, { code: 'invalid', message: /exists already; name another file/ })
    assert.equal(readFileSync(target, 'utf8'), 'mine')
    assert.deepEqual(readdirSync(folder), ['copy.db'])
  })

  test('when another one is being made', async (t) => {
    const { file, folder } = await stage(t)
    const target = join(folder, 'copy.db')
    const first = backupFile(file, target)
    const refusal = { code: 'store_locked', message: /copy\.db\.part\. Another backup is being written there/ }
    await assert.rejects(backupFile(file, target), refusal)
    assert.equal((await first).verified, true, 'the other one is not harmed')
  })

  test('when its folder does not exist', async (t) => {
    const { file, folder } = await stage(t)
    const target = join(folder, 'missing', 'copy.db')
    await assert.rejects(backupFile(file, target), { code: 'store_missing', message: /is no folder; make it first/ })
  })

  test('when there is no database', async (t) => {
    const { folder } = await stage(t)
    const missing = join(folder, 'missing.db')
    const refusal = { code: 'store_missing', message: /missing\.db does not exist/ }
    await assert.rejects(backupFile(missing, join(folder, 'copy.db')), refusal)
    assert.deepEqual(readdirSync(folder), [])
  })

  test('when the file is no database of ours', async (t) => {
    const { folder } = await stage(t)
    const other = join(folder, 'other.db')
    await writeFile(other, 'text, and a lot of it. '.repeat(1_000))
    await assert.rejects(backupFile(other, join(folder, 'copy.db')), { code: 'store_corrupt' })
    assert.deepEqual(readdirSync(folder), ['other.db'])
  })

  test('when the database is damaged', async (t) => {
    const { file, folder, store } = await stage(t, 2_000)
    await store.close()
    const handle = openSync(file, 'r+')
    for (let page = 20; page < 40; page++) writeSync(handle, new Uint8Array(4_096).fill(7), 0, 4_096, page * 4_096)
    closeSync(handle)
    const refusal = { code: 'store_corrupt', message: /posthorn\.db: The database file is damaged; restore a backup/ }
    await assert.rejects(backupFile(file, join(folder, 'copy.db')), refusal)
    assert.deepEqual(readdirSync(folder), [])
  })

  test('when its disk is full', { skip: isRoot ? false : 'only root can mount a small disk' }, async (t) => {
    const { file, scene } = await stage(t, 3_000)
    const small = await scene.tmpfs(64)
    await assert.rejects(backupFile(file, join(small, 'copy.db')), {
      code: 'store_full',
      message: /no room for .*copy\.db: the disk is full/,
    })
    assert.deepEqual(readdirSync(small), [])
  })

  test('when its folder cannot be written', { skip: isRoot ? 'root may write everywhere' : false }, async (t) => {
    const { file, folder } = await stage(t)
    chmodSync(folder, 0o500)
    await assert.rejects(backupFile(file, join(folder, 'copy.db')), { code: 'store_read_only' })
    chmodSync(folder, 0o700)
  })
})
