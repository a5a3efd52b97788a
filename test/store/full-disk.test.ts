import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import type { Attempt } from '../../src/core/attempt.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { Claim } from '../../src/store/pipeline-store.ts'
import { storageFailure } from '../../src/store/sqlite/failures.ts'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint, delivered, t0 } from '../support/builders.ts'
import { integrityOf, isRoot, Scene, until } from './scene.ts'

const skip = isRoot ? false : 'only root can mount a small disk'
const full = { code: 'store_full', message: /The disk is full; make room, Posthorn goes on by itself/ }

/** Fills the last byte; answers how to make room again. */
function fill(folder: string): () => void {
  const ballast = join(folder, 'ballast')
  const handle = openSync(ballast, 'a')
  try {
    for (;;) writeSync(handle, new Uint8Array(1_024))
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
  }
  closeSync(handle)
  return () => unlinkSync(ballast)
}

type Stage = Readonly<{ file: string; folder: string; store: Store; endpoint: Endpoint; inHand: Claim }>

/** A store on a small disk, with one delivery in hand. */
async function stage(t: TestContext, sizeKib: number): Promise<Stage> {
  const scene = new Scene(t)
  const folder = await scene.tmpfs(sizeKib)
  const file = join(folder, 'posthorn.db')
  const store = await scene.open(file)
  const endpoint = anEndpoint()
  await store.putEntry('endpoint', endpoint, 0)
  await store.append([anArrival(endpoint)])
  const request = { from: { endpointId: endpoint.id }, now: t0 + 1, leaseEndsAt: t0 + 9, limit: 1, bytesMax: 1e6 }
  const inHand = (await store.claim(request)).claims[0]!
  return { file, folder, store, endpoint, inHand }
}

/** Larger than what the writes that were cut short left in the log. */
const attempt: Attempt = {
  number: 1,
  startedAt: t0,
  tookMs: 7,
  outcome: 'delivered',
  statusCode: 200,
  error: null,
  responseHeaders: null,
  responseBody: 'x'.repeat(64_000),
  errorClass: null,
  dependency: null,
  stack: null,
}

const nothingDue = ({ endpoint }: Stage) =>
  ({ from: { endpointId: endpoint.id }, now: t0 - 1, leaseEndsAt: t0 + 9, limit: 1, bytesMax: 1e6 }) as const

describe('on a full disk', { skip }, () => {
  test('nothing acknowledged is lost, and writing goes on by itself when there is room', async (t) => {
    const { file, folder, store, endpoint, inHand } = await stage(t, 3_072)
    await writeFile(join(folder, 'ballast'), new Uint8Array(1_000_000))
    const kept: string[] = []
    const refused: string[] = []
    while (refused.length < 10) {
      const arrival = anArrival(endpoint, { event: { body: randomBytes(20_000) } })
      const ids = await store.append([arrival]).then(
        () => kept,
        (error) => {
          assert.equal(error.code, 'store_full', error.message)
          return refused
        },
      )
      ids.push(arrival.event.id)
    }
    assert.ok(kept.length > 5)

    const makeRoom = fill(folder)
    const outcome = { ...delivered(inHand), attempt }
    await assert.rejects(store.commit([outcome]), full)
    assert.equal(store.health().writable, false)
    assert.match(store.health().problem ?? '', full.message)
    for (const id of kept) assert.ok(await store.getEvent(id), 'reads go on')

    makeRoom()
    await until(t, () => store.health().writable)
    assert.deepEqual(await store.commit([outcome]), [{ kind: 'applied', next: null, released: false }])
    await store.append([anArrival(endpoint)])
    assert.deepEqual(store.health(), { writable: true, problem: null })
    for (const id of kept) assert.ok(await store.getEvent(id))
    for (const id of refused) assert.equal(await store.getEvent(id), null)
    await store.close()
    assert.equal(integrityOf(file), 'ok')
  })

  test('what only reads does not make it look healthy', async (t) => {
    const staged = await stage(t, 1_024)
    const { store, folder, endpoint } = staged
    fill(folder)
    await assert.rejects(store.append([anArrival(endpoint, { event: { body: randomBytes(50_000) } })]), full)
    assert.deepEqual((await store.claim(nothingDue(staged))).claims, [])
    await store.append([])
    assert.equal(store.health().writable, false)
  })

  test('an endpoint whose removal was refused goes on getting its deliveries', async (t) => {
    const { store, folder, endpoint } = await stage(t, 1_024)
    const makeRoom = fill(folder)
    await assert.rejects(store.removeEntry('endpoint', endpoint.id), full)
    makeRoom()
    const arrival = anArrival(endpoint)
    await store.append([arrival])
    assert.equal((await store.getDelivery(arrival.deliveries[0]!.id))?.delivery.status, 'pending')
  })

  test('an endpoint that was refused does not get the deliveries of the next one', async (t) => {
    const { store, folder } = await stage(t, 1_024)
    const [refused, next] = [anEndpoint(), anEndpoint()]
    const makeRoom = fill(folder)
    await assert.rejects(store.putEntry('endpoint', refused, 0), full)
    makeRoom()
    await store.putEntry('endpoint', next, 0)
    await assert.rejects(store.append([anArrival(refused)]), /no endpoint .* was ever kept/)
    const arrival = anArrival(next)
    await store.append([arrival])
    assert.equal((await store.getDelivery(arrival.deliveries[0]!.id))?.delivery.endpointId, next.id)
  })

  test('a log that cannot be moved into the file does not end the store', async (t) => {
    const { store, folder, endpoint, file } = await stage(t, 200 * 1_024)
    // While somebody reads what was there before, nobody can move the log.
    const reader = new DatabaseSync(file, { readOnly: true })
    reader.exec('BEGIN; SELECT count(*) FROM events')
    // Past the size at which the writer moves the log itself, and that number of batches before it looks.
    const bodies = Array.from({ length: 70 }, () => anArrival(endpoint, { event: { body: randomBytes(1_000_000) } }))
    const kept = bodies.slice(0, 69)
    for (const arrival of kept) await store.append([arrival])
    const makeRoom = fill(folder)
    reader.close()
    for (let i = 0; i < 130; i++) await store.backlog(t0)
    await assert.rejects(store.append([bodies[69]!]), full)
    makeRoom()
    await until(t, () => store.health().writable)
    for (const arrival of kept) assert.ok(await store.getEvent(arrival.event.id))
    await store.close()
    assert.equal(integrityOf(file), 'ok')
  })
})

describe('with disk space in reserve', { skip }, () => {
  /** A disk that fills up while a delivery is in hand, and has the reserve. */
  const stageWithReserve = (t: TestContext) => stage(t, 64 * 1_024)

  test('a full disk refuses new events, and outcomes are kept', async (t) => {
    const { folder, store, endpoint, inHand } = await stageWithReserve(t)
    const makeRoom = fill(folder)
    const refused = anArrival(endpoint, { event: { body: randomBytes(100_000) } })
    await assert.rejects(store.append([refused]), full)
    assert.equal((await store.commit([{ ...delivered(inHand), attempt }]))[0]?.kind, 'applied')
    assert.equal(store.health().writable, false)
    assert.match(store.health().problem ?? '', /refuses new events, and delivers and prunes/)
    await assert.rejects(store.append([anArrival(endpoint)]), full, 'however small')

    makeRoom()
    await until(t, () => store.health().writable)
    await store.append([anArrival(endpoint)])
    assert.equal(await store.getEvent(refused.event.id), null)
  })

  test('a restart does not forget that the reserve is spent', async (t) => {
    const { file, folder, store, endpoint } = await stageWithReserve(t)
    const makeRoom = fill(folder)
    await assert.rejects(store.append([anArrival(endpoint, { event: { body: randomBytes(100_000) } })]), full)
    await store.close()
    const scene = new Scene(t)
    const again = await scene.open(file)
    await assert.rejects(again.append([anArrival(endpoint)]), full, 'what is left is for outcomes and pruning')
    makeRoom()
    await until(t, () => again.health().writable)
    await again.append([anArrival(endpoint)])
    await again.close()
  })

  test('it starts on a full disk, delivers and prunes, and takes events when there is room', async (t) => {
    const { file, folder, store, endpoint, inHand } = await stageWithReserve(t)
    const waiting = Array.from({ length: 50 }, () => anArrival(endpoint, { event: { body: randomBytes(200_000) } }))
    await store.append(waiting)
    await store.close()
    const makeRoom = fill(folder)

    const scene = new Scene(t)
    const again = await scene.open(file)
    assert.equal(again.health().writable, false)
    await assert.rejects(again.append([anArrival(endpoint)]), full)
    const from = { endpointId: endpoint.id }
    const { claims } = await again.claim({ from, now: t0 + 10, leaseEndsAt: t0 + 99, limit: 100, bytesMax: 1e9 })
    assert.equal(claims.length, waiting.length + 1)
    assert.ok(claims.some(({ delivery }) => delivery.id === inHand.delivery.id))
    for (const claim of claims) assert.equal((await again.commit([delivered(claim)]))[0]?.kind, 'applied')

    const ages = { deliveredMs: 1, failedMs: 1, deadLetterMs: 1, eventMs: 1 }
    const pruned = await again.prune({ what: 'events', now: t0 + 1e9, retention: ages, limit: 1_000, after: null })
    assert.equal(pruned.deliveries, claims.length)
    // What was pruned goes back to the disk, which is room enough.
    while ((await again.space!.shrink(200)) > 0);
    await until(t, () => again.health().writable)
    await again.append([anArrival(endpoint)])
    makeRoom()
    await again.close()
    assert.equal(integrityOf(file), 'ok')
  })
})

test("SQLite's word for a full disk is translated", () => {
  const db = new DatabaseSync(':memory:')
  db.exec('PRAGMA max_page_count = 5; CREATE TABLE t (b BLOB)')
  try {
    db.exec('INSERT INTO t VALUES (zeroblob(100000))')
    assert.fail('it should be full')
  } catch (error) {
    assert.equal(storageFailure(error)?.code, 'store_full')
  }
})
