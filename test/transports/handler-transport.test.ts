import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { HandlerEndpoint } from '../../src/core/endpoint.ts'
import type { Event } from '../../src/core/event.ts'
import { fatal, retryAfter } from '../../src/core/handler-errors.ts'
import { AsyncEngine } from '../../src/engines/async-engine.ts'
import type { HandledEvent, Handler } from '../../src/engines/engine.ts'
import { LateRuns } from '../../src/engines/late-runs.ts'
import { Watchdog } from '../../src/engines/watchdog.ts'
import { envelope } from '../../src/intake/envelope.ts'
import type { Logger } from '../../src/log.ts'
import { HandlerTransport } from '../../src/transports/handler/handler-transport.ts'
import { type AbsenceScene, absenceContract, transportContract } from '../contracts/transport.ts'
import { Arrivals, type Ending } from '../support/arrivals.ts'
import { aHandler, anEvent, t0 } from '../support/builders.ts'

const never = new AbortController().signal

function scene(t: TestContext, handler: Handler, given: Partial<HandlerEndpoint> = {}) {
  const log = { level: 'silent' } as unknown as Logger
  const engine = new AsyncEngine({ watchdog: new Watchdog({ log }), lateRuns: new LateRuns(log) })
  t.after(() => engine.stop())
  const transport = new HandlerTransport()
  const endpoint = aHandler({ timeoutMs: 30_000, ...given })
  const code = { name: 'orders', code: handler, engine }
  transport.register(endpoint.id, code)
  const deliver = (event: Partial<Event> = {}, signal = never) =>
    transport.deliver(
      { event: anEvent(event), endpoint, deliveryId: 'dlv_1', lane: null, attempt: 1, sentAt: t0, bornAt: t0 },
      signal,
    )
  return { transport, endpoint, code, deliver, engine }
}

transportContract('handler', openContractScene)
absenceContract('handler', openContractScene)

async function openContractScene(t: TestContext): Promise<AbsenceScene> {
  const arrivals = new Arrivals()
  const handler: Handler = async ({ body }, { deliveryId, attempt }) => {
    const { promise, resolve } = Promise.withResolvers<Ending>()
    arrivals.add({ deliveryId, attempt, body: Buffer.from(body).toString(), answer: resolve })
    const ending = await promise
    if (ending === 'fail') throw new Error('no')
    if (ending === 'break') throw undefined
  }
  const { transport, code } = scene(t, handler)
  return {
    transport,
    anEndpoint(given) {
      const endpoint = aHandler(given)
      transport.register(endpoint.id, code)
      return endpoint
    },
    next: () => arrivals.next(),
    graceMs: 0,
    leave: async ({ id }) => transport.unregister(id, code),
    come: async ({ id }) => transport.register(id, code),
  }
}

/** What a handler is given for this event. */
async function handed(t: TestContext, event: Partial<Event>): Promise<HandledEvent> {
  let seen: HandledEvent | null = null
  const { deliver } = scene(t, (given) => {
    seen = given
  })
  assert.deepEqual(await deliver(event), { kind: 'handled' })
  assert.ok(seen !== null)
  return seen
}

describe('a handler is given', () => {
  test('the content encoding, and no data that would have to be decoded first', async (t) => {
    const body = gzipSync('{"id":1}')
    const headers = { 'content-encoding': 'gzip' }
    const event = await handed(t, { body, dataOffset: null, contentType: 'application/json', headers })
    assert.equal(event.headers['content-encoding'], 'gzip')
    assert.deepEqual(gunzipSync(event.body).toString(), '{"id":1}')
    assert.throws(() => event.data, /is encoded \(gzip\): decode event\.body/)
  })

  test('the event as its sender made it, without the envelope', async (t) => {
    const data = '{"big":12345678901234567890,"a":1.0}'
    const wrapped = envelope('order.created', t0, Buffer.from(data))
    const event = await handed(t, { ...wrapped, type: 'order.created', key: 'k', tenant: 'acme', headers: { a: 'b' } })
    assert.equal(Buffer.from(event.body).toString(), data)
    assert.deepEqual(event.data, { big: 12345678901234567000, a: 1 })
    assert.equal(event.data, event.data, 'read once')
    const { type, key, tenant, headers, contentType, receivedAt } = event
    assert.deepEqual(
      { type, key, tenant, headers, contentType, receivedAt },
      {
        type: 'order.created',
        key: 'k',
        tenant: 'acme',
        headers: { a: 'b' },
        contentType: 'application/json',
        receivedAt: new Date(t0),
      },
    )
  })

  test('the headers that a source kept, under those of the event', async (t) => {
    const request = { source: 'gh', method: 'POST', query: '', headers: { 'x-github-event': 'push', a: 'theirs' } }
    const event = await handed(t, { request, headers: { a: 'own' } })
    assert.deepEqual(event.headers, { 'x-github-event': 'push', a: 'own' })
  })

  test('data for every JSON content type, and bytes alone for all others', async (t) => {
    const body = Buffer.from('{"a":1}')
    for (const contentType of ['application/json', 'Application/JSON; charset=utf-8', 'application/vnd.x+json']) {
      assert.deepEqual((await handed(t, { contentType, body })).data, { a: 1 }, contentType)
    }
    for (const contentType of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', '']) {
      const event = await handed(t, { contentType, body })
      assert.equal(event.data, undefined, contentType)
      assert.deepEqual(event.body, body)
    }
  })

  test('an error that ends the delivery when bytes that say JSON are none', async (t) => {
    const { deliver } = scene(t, (event) => event.data)
    const report = await deliver({ body: Buffer.from('{oh no') })
    assert.equal(report.kind === 'thrown' ? report.verdict : null, 'permanent')
    assert.match(report.kind === 'thrown' ? report.message : '', /is not JSON/)
  })
})

describe('the handler transport', () => {
  test('serves an endpoint while its code is registered, and tells when that changes', (t) => {
    const { transport, endpoint, code } = scene(t, () => {})
    const told: string[] = []
    transport.onServing((id) => told.push(id))
    assert.equal(transport.serves(endpoint), true)
    assert.equal(transport.serves(aHandler()), false)
    const newer = { ...code, code: () => {} }
    transport.register(endpoint.id, newer)
    transport.unregister(endpoint.id, code)
    assert.equal(transport.serves(endpoint), true, 'an older version withdraws only itself')
    transport.unregister(endpoint.id, newer)
    assert.equal(transport.serves(endpoint), false)
    assert.deepEqual(told, [endpoint.id, endpoint.id])
  })

  test('reports what the handler said of its failure', async (t) => {
    const verdictOf = async (error: unknown) => {
      const { deliver } = scene(t, () => {
        throw error
      })
      const report = await deliver()
      return report.kind === 'thrown' ? [report.verdict, report.retryAfterMs, report.stack !== null] : report.kind
    }
    assert.deepEqual(await verdictOf(fatal('x')), ['permanent', null, true])
    assert.deepEqual(await verdictOf(retryAfter('30s')), ['retryable', 30_000, true])
    assert.deepEqual(await verdictOf(undefined), ['retryable', null, false])
  })

  test('lets what runs finish with the code that it began with', async (t) => {
    const { promise: held, resolve } = Promise.withResolvers<void>()
    const { transport, endpoint, code, deliver } = scene(t, () => held)
    const running = deliver()
    transport.register(endpoint.id, {
      ...code,
      code: () => {
        throw new Error('new code')
      },
    })
    assert.equal((await deliver()).kind, 'thrown')
    transport.unregister(endpoint.id, code)
    resolve()
    assert.deepEqual(await running, { kind: 'handled' })
    await transport.close()
  })

  test('outside of a lane, is done with a try at its deadline', async (t) => {
    const { deliver } = scene(t, () => new Promise(() => {}), { timeoutMs: 20 })
    const report = await deliver()
    assert.match(report.kind === 'thrown' ? report.message : '', /did not end within 20ms/)
  })

  test('in a lane, is done with a try past its deadline when the run has settled', async (t) => {
    const { promise: aborted, resolve: onAborted } = Promise.withResolvers<void>()
    const { promise: held, resolve } = Promise.withResolvers<void>()
    const handler: Handler = (_, { signal }) => {
      signal.addEventListener('abort', () => onAborted())
      return held
    }
    const { deliver } = scene(t, handler, { timeoutMs: 2_000, ordering: 'key' })
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let isOver = false
    const running = deliver({ key: 'k' }).finally(() => {
      isOver = true
    })
    t.mock.timers.tick(2_000)
    await aborted
    await new Promise((next) => setImmediate(next))
    assert.equal(isOver, false, 'the old run goes on')
    resolve()
    assert.match(JSON.stringify(await running), /did not end within 2s/)
  })

  test('in a lane, waits for a run that never settles one more timeout and no longer', async (t) => {
    const { deliver } = scene(t, () => new Promise(() => {}), { timeoutMs: 2_000, ordering: 'endpoint' })
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const running = deliver()
    t.mock.timers.tick(2_000)
    await new Promise((next) => setImmediate(next))
    t.mock.timers.tick(2_000)
    assert.equal((await running).kind, 'thrown')
  })

  test('is interrupted at once when we stop, even while it waits for a late run', async (t) => {
    const stopping = new AbortController()
    const { deliver } = scene(t, () => new Promise(() => {}), { timeoutMs: 10, ordering: 'endpoint' })
    const { deliver: fresh } = scene(t, () => new Promise(() => {}))
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const late = deliver({}, stopping.signal)
    const running = fresh({}, stopping.signal)
    t.mock.timers.tick(10)
    await new Promise((next) => setImmediate(next))
    stopping.abort()
    assert.equal((await late).kind, 'thrown')
    assert.equal((await running).kind, 'interrupted')
  })
})
