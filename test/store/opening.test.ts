import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { PosthornError } from '../../src/core/errors.ts'
import { databaseAt } from '../../src/store/open-store.ts'
import { migrateFile } from '../../src/store/sqlite/migrate-file.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { itemsOf } from '../support/registry.ts'
import { integrityOf, isRoot, mount, Scene } from './scene.ts'

/** A code, and a sentence that names what to look at. */
async function refuses(opening: Promise<unknown>, code: string, says: string | RegExp): Promise<void> {
  await assert.rejects(opening, (error) => {
    assert.ok(error instanceof PosthornError, `not a PosthornError: ${error}`)
    assert.equal(error.code, code, error.message)
    if (typeof says === 'string') assert.ok(error.message.includes(says), error.message)
    else assert.match(error.message, says)
    return true
  })
}

/** A database with an endpoint and an event, closed. */
async function aClosedDatabase(scene: Scene, key: Uint8Array | null = null) {
  const file = await scene.newFile()
  const store = await scene.open(file, { key })
  const endpoint = anEndpoint()
  await store.putEntry('endpoint', endpoint, 0)
  const arrival = anArrival(endpoint)
  await store.append([arrival])
  await store.close()
  return { file, endpoint, event: arrival.event }
}

function changeFile(file: string, sql: string): void {
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
}

describe('opening a place', () => {
  test('makes the folder of the database, but not the folders above it', async (t) => {
    const scene = new Scene(t)
    const folder = await scene.folder()
    const tooDeep = join(folder, 'a', 'b', 'posthorn.db')
    await refuses(scene.open(tooDeep), 'store_missing', join(folder, 'a', 'b'))
    assert.equal(existsSync(join(folder, 'a')), false)
    await scene.open(join(folder, 'a', 'posthorn.db'))
  })

  test('refuses a folder in the place of the file', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await mkdir(file)
    await refuses(scene.open(file), 'store_missing', `${file} is a folder`)
    await refuses(migrateFile(file, { dryRun: true }), 'store_missing', `${file} is a folder`)
    assert.equal(existsSync(`${file}-owner`), false)
  })

  test('refuses a file in the place of the folder', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await writeFile(file, 'text')
    await refuses(scene.open(join(file, 'posthorn.db')), 'store_missing', file)
  })

  test('refuses a read-only folder and leaves it as it is', async (t) => {
    const scene = new Scene(t)
    const { file, event } = await aClosedDatabase(scene)
    const empty = isRoot ? await scene.tmpfs(512) : await scene.folder()
    const full = isRoot ? await scene.tmpfs(2_048) : await scene.folder()
    const moved = join(full, 'posthorn.db')
    await copyFile(file, moved)
    await copyFile(`${file}.key`, `${moved}.key`)
    const lock = (folder: string) => (isRoot ? mount('mount', '-o', 'remount,ro', folder) : chmod(folder, 0o555))
    const unlock = (folder: string) => (isRoot ? mount('mount', '-o', 'remount,rw', folder) : chmod(folder, 0o755))
    for (const folder of [empty, full]) {
      await lock(folder)
      await refuses(scene.open(join(folder, 'posthorn.db')), 'store_read_only', folder)
      await unlock(folder)
    }
    assert.equal(existsSync(join(empty, 'posthorn.db')), false)
    assert.deepEqual(await readFile(moved), await readFile(file))
    const store = await scene.open(moved)
    assert.ok(await store.getEvent(event.id))
  })

  test('refuses a disk that is full before it opens', {
    skip: isRoot ? false : 'only root can mount a small disk',
  }, async (t) => {
    const scene = new Scene(t)
    // Room for the lock, for the log's index, for some of the tables.
    for (const sizeKib of [12, 28, 64]) {
      const folder = await scene.tmpfs(sizeKib)
      await refuses(scene.open(join(folder, 'posthorn.db')), 'store_full', folder)
    }
  })
})

describe('opening a file', () => {
  test('refuses what is no database, and leaves it as it is', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const bytes = randomBytes(20_000)
    await writeFile(file, bytes)
    await refuses(scene.open(file), 'store_corrupt', file)
    assert.deepEqual(await readFile(file), bytes)
  })

  const foreign = {
    'a table of its own': 'CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)',
    'a table of migrations too': 'CREATE TABLE migrations (id INTEGER PRIMARY KEY, name TEXT, batch INTEGER)',
    'migrations with versions too': 'CREATE TABLE migrations (version INTEGER, name TEXT); CREATE TABLE t (a)',
  }
  for (const [what, sql] of Object.entries(foreign)) {
    test(`refuses the database of another program that has ${what}, and leaves it as it is`, async (t) => {
      const scene = new Scene(t)
      const file = await scene.newFile()
      changeFile(file, sql)
      const bytes = await readFile(file)
      await refuses(scene.open(file), 'store_corrupt', `${file} is a database of another program`)
      await refuses(migrateFile(file, { dryRun: false }), 'store_corrupt', 'another program')
      assert.deepEqual(await readFile(file), bytes)
    })
  }

  test('refuses the schema of a newer Posthorn and leaves every byte as it is', async (t) => {
    const scene = new Scene(t)
    const { file } = await aClosedDatabase(scene)
    changeFile(file, `INSERT INTO migrations VALUES (99, '0099-future.sql')`)
    const bytes = await readFile(file)
    await refuses(scene.open(file), 'store_too_new', /newer Posthorn \(schema 99, this one knows \d+\)/)
    await refuses(migrateFile(file, { dryRun: false }), 'store_too_new', 'Nothing was changed')
    assert.deepEqual(await readFile(file), bytes)
  })

  test('refuses the schema of a newer Posthorn that crashed, and leaves its log as it is', async (t) => {
    const scene = new Scene(t)
    const { file } = await aClosedDatabase(scene)
    const newer = scene.plain(file)
    newer.exec(`PRAGMA wal_autocheckpoint = 0; INSERT INTO migrations VALUES (99, '0099-future.sql')`)
    const crashed = await scene.newFile()
    for (const suffix of ['', '-wal', '.key']) await copyFile(`${file}${suffix}`, `${crashed}${suffix}`)
    const before = [await readFile(crashed), await readFile(`${crashed}-wal`)]
    await refuses(scene.open(crashed), 'store_too_new', 'schema 99')
    assert.deepEqual([await readFile(crashed), await readFile(`${crashed}-wal`)], before)
  })

  test('takes back half a transaction that a crash left, though it looks before it writes', async (t) => {
    const scene = new Scene(t)
    const { file, event } = await aClosedDatabase(scene)
    const dying = scene.plain(file)
    // With next to no cache, pages reach the file before the transaction ends.
    dying.exec(`PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; DELETE FROM events; CREATE TABLE junk (a);
      INSERT INTO junk SELECT randomblob(4000) FROM json_each('[1,2,3,4,5,6,7,8]')`)
    const crashed = await scene.newFile()
    for (const suffix of ['', '-journal', '.key']) await copyFile(`${file}${suffix}`, `${crashed}${suffix}`)
    const inspect = new DatabaseSync(crashed, { readOnly: true })
    assert.throws(() => inspect.exec('SELECT * FROM events'), /readonly/, 'the journal is hot')
    inspect.close()
    const store = await scene.open(crashed)
    assert.ok(await store.getEvent(event.id))
    await store.close()
    assert.equal(integrityOf(crashed), 'ok')
  })

  test('tells of a damaged page when it is met, and serves what is sound', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    const arrivals = Array.from({ length: 60 }, () => anArrival(endpoint, { event: { body: randomBytes(2_500) } }))
    await store.append(arrivals)
    await store.close()
    const bytes = await readFile(file)
    const { body, id } = arrivals[30]!.event
    const page = Math.floor(bytes.indexOf(body) / 4096)
    assert.ok(page > 5)
    await writeFile(
      file,
      Buffer.concat([bytes.subarray(0, page * 4096), randomBytes(4096), bytes.subarray(page * 4096 + 4096)]),
    )
    const damaged = await scene.open(file)
    await refuses(damaged.getEvent(id), 'store_corrupt', 'restore a backup')
    assert.ok(await damaged.getEvent(arrivals[0]!.event.id))
    assert.ok(await damaged.getEvent(arrivals[59]!.event.id))
    await refuses(damaged.listEvents({ limit: 100 }), 'store_corrupt', 'restore a backup')
  })

  test('answers any damaged page with a refusal or by going on, never with a defect', async (t) => {
    const scene = new Scene(t)
    const { file } = await aClosedDatabase(scene)
    const bytes = await readFile(file)
    let refusals = 0
    for (let page = 0; page < bytes.length / 4096; page += 2) {
      const damaged = Buffer.from(bytes)
      damaged.fill(0xa5, page * 4096 + (page === 0 ? 100 : 0), (page + 1) * 4096)
      const copy = await scene.newFile()
      await writeFile(copy, damaged)
      await copyFile(`${file}.key`, `${copy}.key`)
      const store = await scene.open(copy).catch((error) => {
        assert.equal(error.code, 'store_corrupt', `page ${page}: ${error.stack}`)
        refusals += 1
        return null
      })
      await store?.close()
    }
    assert.ok(refusals > 0)
  })
})

describe('opening with a key', () => {
  test('refuses the wrong key, and the right one opens at once after', async (t) => {
    const scene = new Scene(t)
    const right = randomBytes(32)
    const { file, endpoint } = await aClosedDatabase(scene, right)
    await refuses(scene.open(file, { key: randomBytes(32) }), 'store_wrong_key', 'POSTHORN_ENCRYPTION_KEY')
    const store = await scene.open(file, { key: right })
    assert.deepEqual(await itemsOf(store, 'endpoint'), [endpoint])
  })

  test('makes a key file that only its owner may read', async (t) => {
    const { file } = await aClosedDatabase(new Scene(t))
    assert.equal((await stat(`${file}.key`)).mode & 0o777, 0o600)
    assert.equal(Buffer.from(await readFile(`${file}.key`, 'utf8'), 'base64').length, 32)
  })

  const harm: Readonly<Record<string, (key: string) => Promise<void>>> = {
    cut: (key) => truncate(key, 20),
    empty: (key) => truncate(key, 0),
    'of another database': (key) => writeFile(key, `${randomBytes(32).toString('base64')}\n`),
    lost: (key) => rm(key),
    'a folder': async (key) => {
      await rm(key)
      await mkdir(key)
    },
  }
  for (const [how, damage] of Object.entries(harm)) {
    test(`refuses when the key file is ${how}, and opens when it is put back`, async (t) => {
      const scene = new Scene(t)
      const { file, endpoint } = await aClosedDatabase(scene)
      const [key, kept] = [`${file}.key`, `${file}.key.kept`]
      await copyFile(key, kept)
      await damage(key)
      await refuses(scene.open(file), 'store_wrong_key', /put the .*file back/)
      if (how === 'lost') assert.equal(existsSync(key), false, 'a new key would hide that the old one is lost')
      await rm(key, { recursive: true, force: true })
      await rename(kept, key)
      const store = await scene.open(file)
      assert.deepEqual(await itemsOf(store, 'endpoint'), [endpoint])
      assert.equal(integrityOf(file), 'ok')
    })
  }

  test('makes the key of a new database whole, even after a start that died while making it', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await writeFile(`${file}.key.new`, 'half')
    await scene.open(file)
    const names = (await readdir(dirname(file))).filter((name) => name.includes('.key'))
    assert.deepEqual(names, ['posthorn.db.key'])
    assert.equal(Buffer.from(await readFile(`${file}.key`, 'utf8'), 'base64').length, 32)
  })

  test('does not write its key through a link that somebody has planted', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const theirs = join(await scene.folder(), 'theirs')
    await writeFile(theirs, 'untouched', { mode: 0o644 })
    await symlink(theirs, `${file}.key.new`)
    await scene.open(file)
    assert.equal(await readFile(theirs, 'utf8'), 'untouched')
    const key = await lstat(`${file}.key`)
    assert.deepEqual([key.isFile(), key.mode & 0o777], [true, 0o600])
  })
})

describe('the owner file', () => {
  test('is private, so that no other user can lock a server out, also when an older Posthorn made it', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const modeOf = async () => (await stat(`${file}-owner`)).mode & 0o777
    await (await scene.open(file)).close()
    assert.equal(await modeOf(), 0o600)
    await chmod(`${file}-owner`, 0o644)
    await scene.open(file)
    assert.equal(await modeOf(), 0o600)
  })

  test('is never a link to a file of somebody else', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const theirs = join(await scene.folder(), 'theirs')
    await symlink(theirs, `${file}-owner`)
    await refuses(scene.open(file), 'store_unavailable', /-owner is a link.*delete that file/)
    assert.equal(existsSync(theirs), false)
  })
})

test('a database exists once it was opened, and is named by its whole path', async (t) => {
  const scene = new Scene(t)
  const file = await scene.newFile()
  const path = relative(process.cwd(), file)
  const database = databaseAt({ database: { kind: 'sqlite', path }, encryptionKey: null })
  assert.equal(await database.exists(), false)
  const { store } = await database.open({ onFatal: assert.ifError })
  await store.close()
  assert.equal(await database.exists(), true)
  assert.equal(database.name, file)
})
