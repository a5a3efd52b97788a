import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, type TestContext, test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { classify } from '../../src/core/failure-classifier.ts'
import type { OutcomeKind, Report } from '../../src/core/outcome.ts'
import type { Parcel, Transport } from '../../src/transports/transport.ts'
import type { Arrived } from '../support/arrivals.ts'
import { anEvent, t0 } from '../support/builders.ts'

/** A transport with its other side, which answers nothing by itself. Both are gone when the test ends. */
export type TransportScene = Readonly<{
  transport: Transport
  /** The other side takes its deliveries. They are in no order. */
  anEndpoint(given?: Readonly<{ timeoutMs: number }>): Endpoint
  /** The next delivery that reached the other side; waits for it. */
  next(): Promise<Arrived>
  /** How much later than the timeout a report may come. */
  graceMs: number
}>

/** The other side may be away. Both resolve when the transport knows. */
export type AbsenceScene = TransportScene &
  Readonly<{ leave(endpoint: Endpoint): Promise<void>; come(endpoint: Endpoint): Promise<void> }>

export type OpenTransport<Scene = TransportScene> = (t: TestContext) => Promise<Scene>

export const never = new AbortController().signal
const timeoutMs = 60_000

export function aParcel(endpoint: Endpoint, deliveryId: string, given: Partial<Parcel> = {}): Parcel {
  const event = anEvent({ body: Buffer.from(`{"of":"${deliveryId}"}`) })
  return { event, endpoint, deliveryId, lane: null, attempt: 1, sentAt: t0, bornAt: t0, ...given }
}

/** Its value if it is there by the next turn of the event loop. */
export function soon<T>(promise: Promise<T>): Promise<T | 'not yet'> {
  return Promise.race([promise, new Promise<'not yet'>((resolve) => setImmediate(resolve, 'not yet'))])
}

export function outcomeOf(report: Report): OutcomeKind {
  return classify(report, {}, t0).kind
}

/** The endpoint was tried and has failed: it counts. */
function assertFailed(report: Report | 'not yet'): void {
  assert.ok(report !== 'not yet', report as string)
  assert.ok(['retryable', 'unavailable'].includes(outcomeOf(report)), JSON.stringify(report))
}

function assertInterrupted(report: Report | 'not yet'): void {
  assert.equal(report === 'not yet' ? report : report.kind, 'interrupted')
}

/** The promises of the transport port: every adapter passes this suite unchanged. */
export function transportContract(name: string, open: OpenTransport): void {
  describe(`${name}: a try`, () => tryContract(open))
  describe(`${name}: the timeout of a try`, () => timeoutContract(open))
  describe(`${name}: an aborted try`, () => abortContract(open))
  describe(`${name}: close`, () => closeContract(open))

  test(`${name}: serves an endpoint whose other side is there`, async (t) => {
    const { transport, anEndpoint } = await open(t)
    assert.equal(transport.serves(anEndpoint()), true)
  })
}

/** The promises about somebody who comes and goes, for transports that know such. */
export function absenceContract(name: string, open: OpenTransport<AbsenceScene>): void {
  describe(`${name}: somebody who comes and goes`, () => servingContract(open))
}

function tryContract(open: OpenTransport): void {
  test('brings the parcel to the other side, and what that says back', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const trying = transport.deliver(aParcel(anEndpoint(), 'dlv_1', { attempt: 3 }), never)
    const { answer, ...arrived } = await next()
    assert.deepEqual(arrived, { deliveryId: 'dlv_1', attempt: 3, body: '{"of":"dlv_1"}' })
    assert.equal(await soon(trying), 'not yet')
    answer('ok')
    assert.equal(outcomeOf(await trying), 'delivered')
  })

  test('never rejects: an answer that refuses it and none at all are reports', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    for (const ending of ['fail', 'break'] as const) {
      const trying = transport.deliver(aParcel(endpoint, `dlv_${ending}`), never)
      const { answer } = await next()
      answer(ending)
      assertFailed(await trying)
    }
  })

  test('is one: what has failed is not sent again', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    for (const [deliveryId, ending] of [['dlv_1', 'fail'] as const, ['dlv_2', 'ok'] as const]) {
      const trying = transport.deliver(aParcel(endpoint, deliveryId), never)
      const arrived = await next()
      assert.equal(arrived.deliveryId, deliveryId)
      arrived.answer(ending)
      await trying
    }
  })

  test('has the report of its own parcel, whatever the order of the answers', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    const ids = ['dlv_1', 'dlv_2', 'dlv_3']
    const trying = ids.map((id) => transport.deliver(aParcel(endpoint, id), never))
    const arrived = [await next(), await next(), await next()]
    for (const one of arrived.toReversed()) one.answer(one.deliveryId === 'dlv_2' ? 'fail' : 'ok')
    const outcomes = (await Promise.all(trying)).map(outcomeOf)
    assert.deepEqual([outcomes[0], outcomes[2]], ['delivered', 'delivered'])
    assert.notEqual(outcomes[1], 'delivered')
  })
}

function timeoutContract(open: OpenTransport): void {
  test('is all for the other side', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const trying = transport.deliver(aParcel(anEndpoint({ timeoutMs }), 'dlv_1'), never)
    const { answer } = await next()
    t.mock.timers.tick(timeoutMs - 1)
    assert.equal(await soon(trying), 'not yet')
    answer('ok')
    assert.equal(outcomeOf(await trying), 'delivered')
  })

  test('ends it as a failure, although the other side has not answered', async (t) => {
    const { transport, anEndpoint, next, graceMs } = await open(t)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const trying = transport.deliver(aParcel(anEndpoint({ timeoutMs }), 'dlv_1'), never)
    await next()
    t.mock.timers.tick(timeoutMs + graceMs)
    assertFailed(await soon(trying))
  })

  test('leaves others alone, and the answer after it changes nothing', async (t) => {
    const { transport, anEndpoint, next, graceMs } = await open(t)
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const late = transport.deliver(aParcel(anEndpoint({ timeoutMs }), 'dlv_1'), never)
    const first = await next()
    const patient = anEndpoint({ timeoutMs: 10 * timeoutMs })
    const other = transport.deliver(aParcel(patient, 'dlv_2'), never)
    const second = await next()
    t.mock.timers.tick(timeoutMs + graceMs)
    first.answer('ok')
    assertFailed(await late)
    assert.equal(await soon(other), 'not yet')
    second.answer('ok')
    assert.equal(outcomeOf(await other), 'delivered')
  })
}

function abortContract(open: OpenTransport): void {
  test('ends at once as interrupted, with all that share its signal and no other', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    const control = new AbortController()
    const ours = ['dlv_1', 'dlv_2'].map((id) => transport.deliver(aParcel(endpoint, id), control.signal))
    const theirs = transport.deliver(aParcel(endpoint, 'dlv_3'), new AbortController().signal)
    const arrived = [await next(), await next(), await next()]
    control.abort()
    for (const one of ours) assertInterrupted(await soon(one))
    assert.equal(await soon(theirs), 'not yet')
    for (const { answer } of arrived) answer('ok')
    assert.equal(outcomeOf(await theirs), 'delivered')
  })

  test('does not begin when its signal was aborted before', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    assertInterrupted(await soon(transport.deliver(aParcel(endpoint, 'dlv_1'), AbortSignal.abort())))
    const other = transport.deliver(aParcel(endpoint, 'dlv_2'), never)
    const { deliveryId, answer } = await next()
    assert.equal(deliveryId, 'dlv_2')
    answer('ok')
    await other
  })
}

function servingContract(open: OpenTransport<AbsenceScene>): void {
  test('is told of to those who asked, each time', async (t) => {
    const { transport, anEndpoint, leave, come } = await open(t)
    const endpoint = anEndpoint()
    const told: boolean[] = []
    transport.onServing((endpointId) => {
      if (endpointId === endpoint.id) told.push(transport.serves(endpoint))
    })
    assert.equal(transport.serves(endpoint), true)
    for (const isThere of [false, true, false]) {
      await (isThere ? come(endpoint) : leave(endpoint))
      assert.deepEqual([told.at(-1), transport.serves(endpoint)], [isThere, isThere])
    }
  })

  test('gets nothing while being away: there is no try', async (t) => {
    const { transport, anEndpoint, leave, come, next } = await open(t)
    const endpoint = anEndpoint()
    await leave(endpoint)
    assertInterrupted(await soon(transport.deliver(aParcel(endpoint, 'dlv_1'), never)))
    await come(endpoint)
    const other = transport.deliver(aParcel(endpoint, 'dlv_2'), never)
    const { deliveryId, answer } = await next()
    assert.equal(deliveryId, 'dlv_2')
    answer('ok')
    assert.equal(outcomeOf(await other), 'delivered')
  })
}

function closeContract(open: OpenTransport): void {
  test('waits for the tries under way, and begins no other', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const endpoint = anEndpoint()
    const trying = transport.deliver(aParcel(endpoint, 'dlv_1'), never)
    const { answer } = await next()
    const closing = transport.close()
    assertInterrupted(await soon(transport.deliver(aParcel(endpoint, 'dlv_2'), never)))
    assert.equal(await soon(closing), 'not yet')
    answer('ok')
    assert.equal(outcomeOf(await trying), 'delivered')
    await closing
    assert.equal(await soon(next()), 'not yet')
  })

  test('may be called twice, at once and later', async (t) => {
    const { transport, anEndpoint, next } = await open(t)
    const trying = transport.deliver(aParcel(anEndpoint(), 'dlv_1'), never)
    const { answer } = await next()
    const closing = [transport.close(), transport.close()]
    assert.equal(await soon(Promise.race(closing)), 'not yet')
    answer('ok')
    await Promise.all([trying, ...closing])
    await transport.close()
  })
}
