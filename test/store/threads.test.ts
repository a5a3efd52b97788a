import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, statSync } from 'node:fs'
import { describe, type TestContext, test } from 'node:test'
import type { Worker } from 'node:worker_threads'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint, anEvent } from '../support/builders.ts'
import { Scene, until } from './scene.ts'

type Stage = Readonly<{
  scene: Scene
  file: string
  store: Store
  writer: Worker
  reader: Worker
  fatal: Promise<Error>
}>

const anEventAlone = () => ({ event: anEvent(), idempotency: null, deliveries: [] })

/** A store whose threads the test can get at. */
async function stage(t: TestContext): Promise<Stage> {
  const scene = new Scene(t)
  const file = await scene.newFile()
  const { promise: fatal, resolve: onFatal } = Promise.withResolvers<Error>()
  const workers: Worker[] = []
  const note = (worker: Worker) => workers.push(worker)
  process.on('worker', note)
  const store = await scene.open(file, { onFatal })
  // The reader starts right after the writer has opened the file.
  while (workers.length < 2) await once(process, 'worker')
  process.off('worker', note)
  const [writer, reader] = workers as [Worker, Worker]
  return { scene, file, store, writer, reader, fatal }
}

async function refusesEverything(store: Store): Promise<void> {
  assert.deepEqual(store.health(), { writable: false, problem: 'The thread that writes has ended.' })
  await assert.rejects(store.append([anEventAlone()]), { code: 'store_unavailable' })
  await assert.rejects(store.claim({ from: { deliveryIds: [] }, now: 0, leaseEndsAt: 1, limit: 1, bytesMax: 1 }), {
    code: 'store_unavailable',
  })
  await store.close()
  await assert.rejects(store.append([anEventAlone()]), { code: 'shutting_down' })
}

describe('the log', () => {
  test('is moved into the file while the store is open', async (t) => {
    const { file, store } = await stage(t)
    const bytes = 4 << 20
    await store.append([{ ...anEventAlone(), event: anEvent({ body: new Uint8Array(bytes) }) }])
    await until(t, () => statSync(file).size > bytes)
    assert.ok((await store.space!.sizes()).fileBytes > bytes, 'and the statistics say so')
  })

  test('is moved again after the reader has ended, though nobody reads', async (t) => {
    const { file, store, reader } = await stage(t)
    await reader.terminate()
    const bytes = 4 << 20
    await store.append([{ ...anEventAlone(), event: anEvent({ body: new Uint8Array(bytes) }) }])
    await until(t, () => statSync(file).size > bytes)
  })

  test('is moved by the writer itself when it has become too long', async (t) => {
    const { file, store, reader } = await stage(t)
    // The reader would move it as well, and comes back by itself when it has ended: it is ended each time.
    const end = (worker: Worker) => void worker.terminate()
    process.on('worker', end)
    t.after(() => process.off('worker', end))
    await reader.terminate()
    const event = () => anEvent({ body: new Uint8Array(1 << 20) })
    let largest = 0
    for (let i = 0; i < 160; i++) {
      await store.append([{ ...anEventAlone(), event: event() }])
      largest = Math.max(largest, statSync(`${file}-wal`).size)
    }
    // More than 64 MiB are too long, and it is looked at every 64 batches, each of which adds 1 MiB here.
    assert.ok(largest > 64 << 20, `nobody else has moved it: ${largest} bytes`)
    assert.ok(largest < 136 << 20, `${largest} bytes`)
  })
})

describe('when the writer thread', () => {
  test('dies of a defect, calls under way are rejected and the owner is told', async (t) => {
    const { store, writer, fatal } = await stage(t)
    // No batch looks like this: the thread trips over it.
    writer.postMessage(null)
    const calls = Array.from({ length: 20 }, () => store.append([anEventAlone()]))
    const results = await Promise.allSettled(calls)
    assert.deepEqual(
      new Set(results.map((r) => r.status === 'rejected' && r.reason.code)),
      new Set(['store_unavailable']),
    )
    assert.ok((await fatal) instanceof TypeError)
    await refusesEverything(store)
  })

  test('ends without a word, calls under way are rejected and the owner is told', async (t) => {
    const { store, writer, fatal } = await stage(t)
    const ended = writer.terminate()
    await assert.rejects(store.append([anEventAlone()]), { code: 'store_unavailable' })
    await ended
    assert.match((await fatal).message, /ended by itself/)
    await refusesEverything(store)
  })

  test('has ended, the file can be opened again', async (t) => {
    const { scene, file, store, writer, fatal } = await stage(t)
    const { event } = await keptEvent(store)
    await writer.terminate()
    await fatal
    const again = await scene.open(file)
    assert.ok(await again.getEvent(event.id))
  })

  test('is given what cannot cross to it, the call is rejected and the next is served', async (t) => {
    const { store } = await stage(t)
    const broken = { ...anEndpoint(), headers: { broken: (() => 1) as unknown as string } }
    await assert.rejects(store.putEntry('endpoint', broken, 0), { name: 'DataCloneError' })
    await keptEvent(store)
    assert.equal(store.health().writable, true)
  })
})

describe('when the reader thread ends', () => {
  test('reads under way are rejected, and the next read starts it anew', async (t) => {
    const { store, reader } = await stage(t)
    const { event } = await keptEvent(store)
    assert.ok(await store.getEvent(event.id))
    const ended = reader.terminate()
    await assert.rejects(store.getEvent(event.id), { code: 'store_unavailable', message: /try again/ })
    await ended
    assert.ok(await store.getEvent(event.id))
    assert.equal(store.health().writable, true)
  })
})

describe('closing', () => {
  test('keeps what was called before it, and waits for no read', async (t) => {
    const { scene, file, store } = await stage(t)
    const arrivals = Array.from({ length: 200 }, anEventAlone)
    const calls = arrivals.map((arrival) => store.append([arrival]))
    const reads = arrivals.slice(0, 20).map((arrival) => store.getEvent(arrival.event.id))
    for (const read of reads) read.catch(() => {})
    const closed = store.close()
    await assert.rejects(store.getEvent('evt_late'), { code: 'shutting_down' })
    assert.ok((await Promise.all(calls)).every((answer) => answer.kind === 'kept'))
    await closed
    for (const read of reads) await assert.rejects(read, { code: 'shutting_down' })
    assert.equal(existsSync(`${file}-wal`), false, 'the last connection has taken the log with it')
    const again = await scene.open(file)
    for (const { event } of arrivals) assert.ok(await again.getEvent(event.id))
  })

  test('a second time resolves when the first has: both threads have ended', async (t) => {
    const { store, writer, reader } = await stage(t)
    const ended = new Set<string>()
    writer.once('exit', () => ended.add('writer'))
    reader.once('exit', () => ended.add('reader'))
    void store.close()
    await store.close()
    assert.deepEqual(ended, new Set(['reader', 'writer']))
  })

  test('leaves the whole database in its one file', async (t) => {
    const { scene, file, store } = await stage(t)
    const { event } = await keptEvent(store)
    await store.getEvent(event.id)
    await store.close()
    const names = scene.plain(file).prepare('SELECT id FROM events').all()
    assert.deepEqual(
      names.map((row) => row.id),
      [event.id],
    )
  })
})

async function keptEvent(store: Store) {
  const arrival = anArrival(anEndpoint())
  await store.append([{ ...arrival, deliveries: [] }])
  return arrival
}
