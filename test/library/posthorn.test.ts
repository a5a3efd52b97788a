import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { fatal, type HandledEvent, PosthornError } from '../../src/index.ts'
import { attempts, folderFor, posthornFor } from './scene.ts'

const isInvalid = (pattern: RegExp) => (error: unknown) => {
  assert.ok(error instanceof PosthornError, String(error))
  assert.match(error.message, pattern)
  return true
}

describe('openPosthorn', () => {
  test('sends to the handlers of a type, which get what was sent', async (t) => {
    const posthorn = await posthornFor(t)
    const got: HandledEvent[] = []
    posthorn.handle('order.*', async (event) => {
      got.push(event)
    })
    const settled = attempts(posthorn, 1)
    const sent = await posthorn.send('order.created', { id: 1 }, { key: 'order-1', headers: { 'X-A': 'b' } })
    assert.deepEqual([sent.deliveries, sent.duplicate], [1, false])
    await posthorn.send('invoice.paid', { id: 2 })
    await settled
    const [event] = got
    assert.deepEqual(
      [got.length, event?.id, event?.type, event?.key, event?.tenant, event?.data, event?.headers],
      [1, sent.id, 'order.created', 'order-1', 'default', { id: 1 }, { 'x-a': 'b' }],
    )
    const { items } = await posthorn.deliveries.list({ event: sent.id })
    assert.deepEqual(
      items.map(({ status, attempts }) => [status, attempts]),
      [['delivered', 1]],
    )
  })

  test('waits with sending until handlers that were just registered are on disk', async (t) => {
    const posthorn = await posthornFor(t)
    const settled = attempts(posthorn, 2)
    posthorn.handle('a', () => {}, { name: 'one' })
    posthorn.handle('a', () => {}, { name: 'two' })
    assert.equal((await posthorn.send('a', null)).deliveries, 2)
    await settled
  })

  test('finds a handler again by tenant and name, with what waited for it', async (t) => {
    const folder = await folderFor(t)
    const first = await folder.open()
    const handle = first.handle('a.*', () => {}, { name: 'billing', tenant: 'acme', concurrency: 3 })
    await handle.ready
    await handle.stop()
    const { id } = await first.send('a.b', 1, { tenant: 'acme' })
    const [known] = await first.endpoints.list({ kind: 'handler' })
    await first.close()
    const second = await folder.open()
    const settled = attempts(second, 1)
    const got: string[] = []
    second.handle(['a.*', 'b'], (event) => got.push(event.id), { name: 'billing', tenant: 'acme', timeout: '5s' })
    await settled
    assert.deepEqual(got, [id])
    const endpoints = await second.endpoints.list()
    assert.equal(endpoints.length, 1)
    const [now] = endpoints
    assert.deepEqual([now?.id, now?.createdAt], [known?.id, known?.createdAt])
    assert.deepEqual([now?.types, now?.timeout, now?.concurrency], [['a.*', 'b'], '5s', 8], 'the code is the truth')
  })

  test('leaves a handler paused that a person paused', async (t) => {
    const folder = await folderFor(t)
    const first = await folder.open()
    await first.handle('a', () => {}).ready
    const [endpoint] = await first.endpoints.list()
    await first.endpoints.pause(endpoint?.id ?? '')
    await first.close()
    const second = await folder.open()
    await second.handle('a', () => {}, { concurrency: 2 }).ready
    const [now] = await second.endpoints.list()
    assert.deepEqual([now?.status, now?.concurrency], ['paused', 2])
  })

  test('gives a handler the defaults of handlers', async (t) => {
    const posthorn = await posthornFor(t, { retryBaseDelay: '7s', retryMaxDelay: '1m', maxAttempts: 9 })
    await posthorn.handle(['a', 'b.*'], () => {}).ready
    const [endpoint] = await posthorn.endpoints.list()
    const { kind, ordering, concurrency, timeout, breaker } = endpoint!
    assert.deepEqual([kind, ordering, concurrency, timeout, breaker], ['handler', 'none', 8, '30s', false])
    assert.equal('handler' in endpoint! && endpoint.handler, 'a,b.*')
    assert.deepEqual(endpoint?.retry, {
      preset: 'processing',
      strategy: 'exponential',
      baseDelay: '14s',
      multiplier: 2,
      maxDelay: '1m',
      jitter: 0,
      maxAttempts: 9,
      maxAge: '7d',
    })
  })

  test('refuses what cannot be handled, naming every problem', async (t) => {
    const posthorn = await posthornFor(t)
    const nothing = () => {}
    posthorn.handle('a', nothing)
    const wrong = (run: () => unknown, pattern: RegExp) => assert.throws(run, isInvalid(pattern))
    wrong(() => posthorn.handle('a', nothing), /handler of a .*name a is registered already; give one .* another name/)
    wrong(
      () => posthorn.handle('b', nothing, { timeot: 1, retry: { preset: 'webhok' } } as object),
      /retry\.preset must be one of .*timeot is not an option of a handler; did you mean timeout\?$/,
    )
    wrong(() => posthorn.handle('not a type', nothing), /types\[0\] must be letters/)
    wrong(() => posthorn.handle([], nothing), /types must be a list of 1 to/)
    wrong(() => posthorn.handle('b', 'nothing' as never), /module must be the URL of a file/)
    wrong(() => posthorn.handle('b', undefined as never), /handler must be a function/)
    wrong(() => posthorn.handle('b', new URL('file:///b.ts')), /module is not found at \/b\.ts/)
    wrong(() => posthorn.handle('b', nothing, { engine: 'process' }), /engine 'process' runs modules and not functions/)
    assert.equal((await posthorn.send('a', 1)).deliveries, 1, 'the one that is good goes on')
  })

  test('refuses what JSON cannot carry, and tells where it is', async (t) => {
    const posthorn = await posthornFor(t)
    const refused = (data: unknown, pattern: RegExp) => assert.rejects(posthorn.send('a', data), isInvalid(pattern))
    await refused(undefined, /data is undefined, which JSON cannot carry/)
    await refused(() => {}, /data is a function/)
    await refused({ order: { lines: [{ amount: 1n }] } }, /BigInt at data\.order\.lines\[0\]\.amount/)
    const round: Record<string, unknown> = {}
    round.self = round
    await refused(round, /circular/)
    await assert.rejects(posthorn.send('a b', 1), isInvalid(/type must be letters/))
    await assert.rejects(posthorn.send('a', 1, { tenant: '', key: '' }), isInvalid(/tenant must be .*; key must have/))
    await assert.rejects(posthorn.send('a', 1, { headers: { host: 'x' } }), isInvalid(/headers\.host/))
    await assert.rejects(posthorn.send('a', 'x'.repeat(2_000_000)), isInvalid(/data is larger than/))
  })

  test('answers the same event under the same idempotency key with the first one', async (t) => {
    const posthorn = await posthornFor(t)
    const first = await posthorn.send('a', 1, { idempotencyKey: 'k' })
    const second = await posthorn.send('a', 1, { idempotencyKey: 'k' })
    assert.deepEqual([second.id, second.duplicate], [first.id, true])
    await assert.rejects(posthorn.send('a', 2, { idempotencyKey: 'k' }), { code: 'conflict' })
  })

  test('keeps a batch whole or not at all, in its order', async (t) => {
    const posthorn = await posthornFor(t)
    const got: number[] = []
    posthorn.handle('n', (event) => got.push(event.data), { ordering: 'endpoint' })
    const settled = attempts(posthorn, 5)
    const sent = await posthorn.sendBatch([1, 2, 3, 4, 5].map((data) => ({ type: 'n', data })))
    assert.equal(sent.length, 5)
    await settled
    assert.deepEqual(got, [1, 2, 3, 4, 5])
    const half = [
      { type: 'n', data: 6 },
      { type: 'n', data: 7n },
    ]
    await assert.rejects(posthorn.sendBatch(half), isInvalid(/\[1\]\.data/))
    assert.deepEqual(await posthorn.sendBatch([]), [])
    assert.equal((await posthorn.deliveries.list()).items.length, 5)
  })

  test('ends the wait of a sender who gives up', async (t) => {
    const posthorn = await posthornFor(t)
    await assert.rejects(posthorn.send('a', 1, { signal: AbortSignal.abort() }), { name: 'AbortError' })
    const giveUp = new AbortController()
    const sending = posthorn.send('a', 1, { signal: giveUp.signal })
    giveUp.abort()
    await assert.rejects(sending, { name: 'AbortError' })
  })

  test('closes by itself at the end of a scope, and then takes nothing', async (t) => {
    const folder = await folderFor(t)
    const posthorn = await folder.open()
    {
      await using scoped = posthorn
      await scoped.send('a', 1)
    }
    await assert.rejects(posthorn.send('a', 1), { code: 'shutting_down' })
    assert.throws(() => posthorn.handle('a', () => {}), { code: 'shutting_down' })
    await folder.open()
  })

  test('takes a handler that blocks the loop past its deadline for one failed attempt', async (t) => {
    const posthorn = await posthornFor(t, { retryBaseDelay: '1ms' })
    const cell = new Int32Array(new SharedArrayBuffer(4))
    posthorn.handle(
      'a',
      (_, { attempt }) => {
        if (attempt === 1) Atomics.wait(cell, 0, 0, 100)
      },
      { timeout: 50 },
    )
    const settled = attempts(posthorn, 2)
    const { id } = await posthorn.send('a', 1)
    await settled
    const [delivery] = (await posthorn.deliveries.list({ event: id })).items
    const log = (await posthorn.deliveries.get(delivery?.id ?? ''))?.attemptLog ?? []
    assert.equal(log[0]?.error, 'the handler did not end within 50ms')
  })

  test('lets what runs finish within the grace time', async (t) => {
    const folder = await folderFor(t)
    const posthorn = await folder.open({ grace: '30s' })
    const { promise: started, resolve: onStarted } = Promise.withResolvers<void>()
    const { promise: held, resolve } = Promise.withResolvers<void>()
    posthorn.handle('a', () => {
      onStarted()
      return held
    })
    const { id } = await posthorn.send('a', 1)
    await started
    const closing = posthorn.close()
    resolve()
    await closing
    const again = await folder.open()
    const { items } = await again.deliveries.list({ event: id })
    assert.equal(items[0]?.status, 'delivered')
  })

  test('shows events and deliveries, and retries and cancels them', async (t) => {
    const posthorn = await posthornFor(t)
    let isBroken = true
    posthorn.handle('a', () => {
      if (isBroken) throw fatal('not today')
    })
    const failed = attempts(posthorn, 1)
    const { id } = await posthorn.send('a', { n: 1 })
    await failed
    const event = await posthorn.events.get(id)
    assert.match(Buffer.from(event?.body ?? []).toString(), /"data":\{"n":1\}/)
    const delivery = event?.deliveries[0]
    assert.deepEqual([delivery?.status, delivery?.reason], ['failed', 'rejected_by_handler'])
    const shown = await posthorn.deliveries.get(delivery?.id ?? '')
    assert.match(shown?.attemptLog[0]?.stack ?? '', /not today[\s\S]*posthorn\.test\.ts/)
    isBroken = false
    const retried = attempts(posthorn, 1)
    await posthorn.deliveries.retry(delivery?.id ?? '')
    await retried
    assert.equal((await posthorn.deliveries.get(delivery?.id ?? ''))?.status, 'delivered')
    await assert.rejects(posthorn.deliveries.cancel(delivery?.id ?? ''), { code: 'conflict' })
    await assert.rejects(posthorn.deliveries.retry('dlv_nothing'), { code: 'not_found' })
    assert.equal(await posthorn.events.get('nothing'), null)
    assert.equal(await posthorn.deliveries.get('dlv_nothing'), null)
    const wrong = { status: 'lost', limit: 0, endpiont: 'x' } as object
    await assert.rejects(posthorn.deliveries.list(wrong), isInvalid(/limit must be .*status must be .*endpiont is not/))
  })

  test('finds by key, and cancels what waits in bulk', async (t) => {
    const posthorn = await posthornFor(t)
    const { id } = await posthorn.endpoints.create({ url: 'https://shop.example/hooks', types: ['order.*'] })
    await posthorn.endpoints.pause(id)
    for (const key of ['order-1', 'order-2', 'order-3']) await posthorn.send('order.created', 1, { key })
    const { items } = await posthorn.deliveries.list({ key: 'order-2', status: ['pending', 'failed'], type: 'order.*' })
    const events = await posthorn.events.list({ key: 'order-2' })
    assert.deepEqual(
      items.map(({ eventId }) => eventId),
      events.items.map((event) => event.id),
    )
    assert.equal((await posthorn.deliveries.previewCancel({ endpoint: id })).matched, 3)
    assert.deepEqual(await posthorn.deliveries.cancelMatching({ key: 'order-2' }), { cancelled: 1 })
    await assert.rejects(posthorn.deliveries.cancelMatching({}), isInvalid(/must name something/))
    await assert.rejects(posthorn.deliveries.cancelMatching({ status: 'failed' } as object), isInvalid(/status/))
    assert.deepEqual(await posthorn.deliveries.cancelMatching('all'), { cancelled: 2 })
  })

  test('brings dead letters back with a replay', async (t) => {
    const posthorn = await posthornFor(t)
    let isBroken = true
    posthorn.handle('a', () => {
      if (isBroken) throw fatal('not today')
    })
    const failed = attempts(posthorn, 3)
    await posthorn.sendBatch([1, 2, 3].map((data) => ({ type: 'a', data })))
    await failed
    isBroken = false
    const filter = { reason: 'rejected_by_handler', from: new Date(0) } as const
    assert.equal((await posthorn.replays.preview(filter)).matched, 3)
    const mended = attempts(posthorn, 3)
    const replay = await posthorn.replays.create({ filter, note: 'mended' })
    assert.deepEqual([replay.matched, replay.note, replay.by], [3, 'mended', 'library'])
    await mended
    assert.equal((await posthorn.deliveries.list({ status: 'delivered' })).items.length, 3)
    assert.equal((await posthorn.replays.get(replay.id))?.id, replay.id)
    await assert.rejects(posthorn.replays.pause('rpl_nothing'), { code: 'not_found' })
    await assert.rejects(
      posthorn.replays.create({ filter: { staus: 'x' } as object }),
      isInvalid(/did you mean status/),
    )
  })

  test('makes, changes and deletes http endpoints by the rules of the API', async (t) => {
    const posthorn = await posthornFor(t, { allowPrivate: ['127.0.0.1/32'] })
    const { id, secret } = await posthorn.endpoints.create({ url: 'http://127.0.0.1:9/', types: ['x'] })
    assert.match(secret ?? '', /^whsec_/)
    assert.equal((await posthorn.endpoints.update(id, { concurrency: 2 })).concurrency, 2)
    assert.equal((await posthorn.endpoints.pause(id)).status, 'paused')
    assert.equal((await posthorn.endpoints.resume(id)).status, 'active')
    assert.equal((await posthorn.endpoints.get(id))?.kind, 'http')
    await posthorn.endpoints.delete(id)
    assert.equal(await posthorn.endpoints.get(id), null)
    await assert.rejects(posthorn.endpoints.pause(id), { code: 'not_found' })
    const inside = { url: 'http://10.0.0.1/' }
    await assert.rejects(posthorn.endpoints.create(inside), isInvalid(/url .*10\.0\.0\.1/))
    await assert.rejects(posthorn.endpoints.create({ url: 'x', retyr: 1 } as never), isInvalid(/did you mean retry\?/))
  })

  test('listens only when it is asked to', async (t) => {
    const folder = await folderFor(t)
    const quiet = await folder.open()
    assert.equal(quiet.url, null)
    await quiet.close()
    const served = await folder.open({ serve: { port: 0 } })
    assert.equal((await fetch(`${served.url}/healthz`)).status, 200)
  })

  test('tells a wrong option by its name', async (t) => {
    const folder = await folderFor(t)
    await assert.rejects(
      folder.open({ concurrency: 0, grace: 'soon' }),
      isInvalid(/\n {2}concurrency must be .*\n {2}grace must/),
    )
    await assert.rejects(
      folder.open({ concurency: 1 } as object),
      isInvalid(/concurency is not an option; did you mean/),
    )
    const table = { a: 3 } as never
    await assert.rejects(folder.open({ handlers: table }), isInvalid(/option handlers\["a"\].*must be a function/))
    const opened = await folder.open({ handlers: { a: () => {}, b: { handler: () => {}, concurrency: 2 } } })
    assert.equal((await opened.send('b', 1)).deliveries, 1, 'what was refused has let go of the file')
  })
})
