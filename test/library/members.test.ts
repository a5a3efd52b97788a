import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { openPosthorn, type Posthorn } from '../../src/index.ts'
import { aSchema, noPostgres } from '../support/postgres.ts'
import { testKey } from '../support/postgres-store.ts'

async function workers(t: TestContext, count: number): Promise<readonly Posthorn[]> {
  const place = await aSchema()
  const options = {
    database: place.url,
    encryptionKey: testKey.toString('hex'),
    logLevel: 'silent',
    grace: '1s',
  } as const
  const opening = await Promise.allSettled(Array.from({ length: count }, () => openPosthorn(options)))
  const opened = opening.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  t.after(async () => {
    await Promise.all(opened.map((posthorn) => posthorn.close()))
    await place.drop()
  })
  assert.deepEqual(
    opening.flatMap((each) => (each.status === 'rejected' ? [each.reason] : [])),
    [],
  )
  return opened
}

describe('library processes on one Postgres', { skip: noPostgres() ?? false }, () => {
  it('that register the same handler at the same moment share one endpoint', async (t) => {
    const opened = await workers(t, 3)
    const handles = opened.map((posthorn) => posthorn.handle('order.*', async () => {}))
    await Promise.all(handles.map((handle) => handle.ready))
    const endpoints = await opened[0]!.endpoints.list({ kind: 'handler' })
    assert.equal(endpoints.length, 1)
  })

  it('share the work: each event is handled once, whoever sent it', async (t) => {
    const opened = await workers(t, 2)
    const handled = new Map<number, number>()
    const by = [0, 0]
    const done = Promise.withResolvers<void>()
    const count = 200
    const handles = opened.map((posthorn, worker) =>
      posthorn.handle(
        'order.*',
        async ({ data }) => {
          const { n } = data as { n: number }
          handled.set(n, (handled.get(n) ?? 0) + 1)
          by[worker] = (by[worker] ?? 0) + 1
          await new Promise((resolve) => setTimeout(resolve, 5))
          if (handled.size === count) done.resolve()
        },
        { concurrency: 2 },
      ),
    )
    await Promise.all(handles.map((handle) => handle.ready))
    await Promise.all(Array.from({ length: count }, (_, n) => opened[n % 2]!.send('order.created', { n })))
    await done.promise
    assert.deepEqual([...new Set(handled.values())], [1])
    assert.ok(
      by.every((share) => share > count / 10),
      `${by}`,
    )
  })

  it('share the work of one that sends all of it, also when each event takes long', async (t) => {
    const opened = await workers(t, 2)
    const by = [0, 0]
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const release = Promise.withResolvers<void>()
    const handles = opened.map((posthorn, worker) =>
      posthorn.handle(
        'order.*',
        async () => {
          by[worker] = (by[worker] ?? 0) + 1
          if (by[worker] === 4) (worker === 0 ? first : second).resolve()
          await release.promise
        },
        { concurrency: 4 },
      ),
    )
    await Promise.all(handles.map((handle) => handle.ready))
    // Nothing of it ends before both have all hands full.
    await opened[0]!.sendBatch(Array.from({ length: 40 }, (_, n) => ({ type: 'order.created', data: { n } })))
    await Promise.all([first.promise, second.promise])
    release.resolve()
  })

  it('do the work of one that has no handler for it', async (t) => {
    const [worker, sender] = await workers(t, 2)
    const done = Promise.withResolvers<unknown>()
    await worker!.handle('order.*', async ({ data }) => done.resolve(data)).ready
    // The other has not heard of the endpoint yet, or has: the event is routed when it has.
    for (;;) {
      const { deliveries } = await sender!.send('order.created', { n: 1 })
      if (deliveries === 1) break
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    assert.deepEqual(await done.promise, { n: 1 })
  })
})
