import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { openReader, openWriter } from '../../src/store/sqlite/connection.ts'
import { anArrival, anEndpoint, t0 } from '../support/builders.ts'
import { Scene } from './scene.ts'

const headerBytes = 32
const frameHeadBytes = 24

/** Commits in the log: the frames that close a transaction, of the log's current round. */
async function commitsIn(file: string): Promise<number> {
  const log = await readFile(`${file}-wal`)
  if (log.length === 0) return 0
  const frameBytes = frameHeadBytes + log.readUInt32BE(8)
  const salt = log.subarray(16, 24)
  let commits = 0
  for (let at = headerBytes; at + frameBytes <= log.length; at += frameBytes) {
    if (!log.subarray(at + 8, at + 16).equals(salt)) break
    if (log.readUInt32BE(at + 4) > 0) commits += 1
  }
  return commits
}

describe('durability', () => {
  test('every connection that commits or moves the log syncs it in full', async (t) => {
    const file = await new Scene(t).newFile()
    const writer = openWriter(file, 1_000)
    const reader = openReader(file)
    for (const db of [writer, reader]) {
      assert.equal(db.prepare('PRAGMA journal_mode').get()?.journal_mode, 'wal')
      assert.equal(db.prepare('PRAGMA synchronous').get()?.synchronous, 2)
      assert.equal(db.prepare('PRAGMA fullfsync').get()?.fullfsync, 1)
      assert.equal(db.prepare('PRAGMA checkpoint_fullfsync').get()?.checkpoint_fullfsync, 1)
      assert.equal(db.prepare('PRAGMA wal_autocheckpoint').get()?.wal_autocheckpoint, 0)
      db.close()
    }
  })

  test('the file of an open store is in WAL mode', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await scene.open(file)
    assert.equal(scene.plain(file).prepare('PRAGMA journal_mode').get()?.journal_mode, 'wal')
  })

  test('a place where SQLite cannot be durable is refused', () => {
    assert.throws(() => openWriter(':memory:', 1_000), {
      code: 'store_unavailable',
      message: /cannot be durable.*put it on a local disk/,
    })
  })
})

describe('group commit', () => {
  test('many calls at once share few transactions', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    const before = await commitsIn(file)
    await Promise.all(Array.from({ length: 1_000 }, () => store.append([anArrival(endpoint)])))
    const commits = (await commitsIn(file)) - before
    assert.ok(commits >= 1 && commits <= 10, `1,000 calls took ${commits} transactions`)
  })

  test('calls one after the other have a transaction each', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    const before = await commitsIn(file)
    for (let i = 0; i < 5; i++) await store.append([anArrival(endpoint)])
    assert.equal((await commitsIn(file)) - before, 5)
  })

  test('the defect of one call costs its neighbours nothing', async (t) => {
    const scene = new Scene(t)
    const store = await scene.open(await scene.newFile())
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    const arrivals = Array.from({ length: 50 }, (_, i) => anArrival(i === 20 ? anEndpoint() : endpoint))
    const results = await Promise.allSettled(arrivals.map((arrival) => store.append([arrival])))
    const rejected = results.flatMap((result, index) => (result.status === 'rejected' ? [index] : []))
    assert.deepEqual(rejected, [20])
    for (const [index, { event }] of arrivals.entries()) {
      assert.equal((await store.getEvent(event.id)) === null, index === 20)
    }
    assert.deepEqual(store.health(), { writable: true, problem: null }, 'a defect says nothing about the disk')
  })
})

describe('secrets', () => {
  test('are in no file in plain text, neither while it is open nor after', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    const [first, second, third] = [randomUUID(), randomUUID(), randomUUID()]
    const secrets = [{ secret: `whsec_${first}`, expiresAt: null }]
    const endpoint = anEndpoint({ description: 'shown', secrets, headers: { authorization: `Bearer ${third}` } })
    await store.putEntry('endpoint', endpoint, 0)
    const secondToo = [...endpoint.secrets, { secret: second, expiresAt: t0 }]
    await store.putEntry('endpoint', { ...endpoint, secrets: secondToo }, 1)
    const everything = async () => {
      const names = await readdir(dirname(file))
      return Buffer.concat(await Promise.all(names.map((name) => readFile(join(dirname(file), name)))))
    }
    const open = await everything()
    await store.close()
    for (const bytes of [open, await everything()]) {
      assert.ok(bytes.includes('shown'), 'looks in the right place')
      for (const hidden of [first, second, third]) assert.ok(!bytes.includes(hidden))
    }
  })
})

describe('claiming', () => {
  test('takes nothing more when lapsed leases alone are large enough', async (t) => {
    const scene = new Scene(t)
    const store = await scene.open(await scene.newFile())
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    const large = { event: { body: new Uint8Array(1_000) } }
    await store.append([
      anArrival(endpoint, { ...large, delivery: { leaseEndsAt: t0 + 5 } }),
      anArrival(endpoint, large),
    ])
    const request = { now: t0 + 5, leaseEndsAt: t0 + 99, limit: 10, bytesMax: 1_500 }
    const { claims } = await store.claim({ from: { endpointId: endpoint.id }, ...request })
    assert.deepEqual(
      claims.map((claim) => claim.interruptions > 0),
      [true],
    )
  })
})
