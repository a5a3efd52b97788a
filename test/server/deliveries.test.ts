import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, type Served } from './served.ts'

let served: Served
let sink: ScriptedEndpoint
let endpointId: string

before(async () => {
  served = await openServed()
  sink = await openScriptedEndpoint((received) => ({
    status: received.body.includes('"bad"') ? 400 : 200,
    body: 'thanks',
  }))
  const created = await served.call('POST', '/v1/endpoints', { url: sink.url, types: ['order.*'] })
  endpointId = created.json.id
})
after(async () => {
  await served.stop()
  await sink.close()
})

/** Sends an event and waits until its delivery has ended. */
async function settled(event: object): Promise<Json> {
  const { id } = (await served.call('POST', '/v1/events', event)).json
  await sink.next()
  return settledAgain(id, 1)
}

async function settledAgain(eventId: string, attempts: number): Promise<Json> {
  for (;;) {
    const [delivery] = (await served.call('GET', `/v1/events/${eventId}`)).json.deliveries
    if (delivery.attempts === attempts && ['delivered', 'failed'].includes(delivery.status)) return delivery
  }
}

describe('a delivery', () => {
  test('tells what became of it, with its attempts', async () => {
    const { id, eventId } = await settled({ type: 'order.created', data: 1, key: 'k', tenant: 'default' })
    const shown = (await served.call('GET', `/v1/deliveries/${id}`)).json
    const { receivedAt, lastAttemptAt, deliveredAt, attemptLog, request, ...rest } = shown
    assert.equal(request.headers['webhook-id'], eventId)
    assert.deepEqual(rest, {
      ...{ id, eventId, endpointId, type: 'order.created', tenant: 'default', key: 'k' },
      ...{ status: 'delivered', attempts: 1, retryAfter: null, lastError: null, reason: null },
      ...{ waitsFor: null, waitsUntil: null, endpointError: null },
    })
    for (const at of [receivedAt, lastAttemptAt, deliveredAt]) assert.match(at, /^\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z$/)
    assert.equal(attemptLog.length, 1)
    const { number, outcome, statusCode, error, responseBody } = attemptLog[0]
    assert.deepEqual([number, outcome, statusCode, error, responseBody], [1, 'delivered', 200, null, 'thanks'])
  })

  test('is found by status, endpoint, event, type, tenant, reason, error and time', async () => {
    const { id, eventId, receivedAt } = await settled({ type: 'order.refused', data: 'bad' })
    const filters = [
      `status=failed&event=${eventId}`,
      `endpoint=${endpointId}&reason=permanent_status&type=order.refused`,
      `error=HTTP%20400&tenant=default&event=${eventId}`,
      `from=${receivedAt}&type=order.refused`,
    ]
    for (const filter of filters) {
      const { items } = (await served.call('GET', `/v1/deliveries?${filter}`)).json
      assert.deepEqual(
        items.map((item: Json) => item.id),
        [id],
        filter,
      )
    }
    const none = [
      'status=pending',
      'tenant=acme',
      'endpoint=ep_x',
      `to=${receivedAt}&type=order.refused`,
      'error=teapot',
    ]
    for (const filter of none)
      assert.deepEqual((await served.call('GET', `/v1/deliveries?${filter}`)).json.items, [], filter)
  })

  test('is found by key, several statuses, the class of its last status and a pattern of types', async () => {
    const { id, eventId } = await settled({ type: 'order.find.refused', data: 'bad', key: 'order-42' })
    const other = await settled({ type: 'order.find.taken', data: 'good', key: 'order-4' })
    const found = async (filter: string) =>
      (await served.call('GET', `/v1/deliveries?${filter}`)).json.items.map((item: Json) => item.id)
    assert.deepEqual(await found('key=order-42'), [id])
    assert.deepEqual(await found('type=order.find.*&status=failed,delivered'), [other.id, id])
    assert.deepEqual(await found('type=order.find.*&status=failed&status=delivered'), [other.id, id])
    assert.deepEqual(await found('type=order.find.*&statusClass=4xx'), [id])
    assert.deepEqual(await found('type=order.find.*&statusClass=2xx,5xx'), [other.id])
    assert.deepEqual(await found('type=*.find.refused&key=order-42&tenant=default'), [id])
    const events = (await served.call('GET', '/v1/events?key=order-42&type=order.find.*')).json.items
    assert.deepEqual(
      events.map((item: Json) => item.id),
      [eventId],
    )
    const wrong = await served.call('GET', '/v1/deliveries?status=failed,&statusClass=6xx&key=&type=a..b')
    const paths = wrong.json.errors.map((error: Json) => error.path).sort()
    assert.deepEqual([wrong.status, paths], [422, ['key', 'status', 'statusClass', 'type']])
  })

  test('is listed page by page, each once', async () => {
    for (let n = 0; n < 3; n++) await settled({ type: 'order.paged', data: n })
    const seen: string[] = []
    let cursor = ''
    do {
      const page = (await served.call('GET', `/v1/deliveries?type=order.paged&limit=1${cursor}`)).json
      seen.push(...page.items.map((item: Json) => item.id))
      cursor = page.next === null ? '' : `&cursor=${page.next}`
    } while (cursor !== '')
    assert.equal(new Set(seen).size, 3)
    assert.equal(seen.length, 3)
  })

  test('is retried when a person asks, a dead letter and a delivered one alike', async () => {
    for (const data of ['bad', 'good']) {
      const { id, eventId } = await settled({ type: 'order.again', data })
      const reply = await served.call('POST', `/v1/deliveries/${id}/retry`)
      assert.deepEqual([reply.status, reply.json.id], [202, id])
      const again = await sink.next()
      assert.equal(again.headers['webhook-id'], eventId)
      await settledAgain(eventId, 2)
      const { attemptLog } = (await served.call('GET', `/v1/deliveries/${id}`)).json
      assert.deepEqual(
        attemptLog.map((attempt: Json) => attempt.number),
        [1, 2],
      )
    }
  })

  test('cannot be retried while it is tried, or when its endpoint is gone', async () => {
    const slow = await openScriptedEndpoint(['hang'])
    try {
      const endpoint = (await served.call('POST', '/v1/endpoints', { url: slow.url, types: ['slow.*'] })).json
      const { id: eventId } = (await served.call('POST', '/v1/events', { type: 'slow.one', data: 1 })).json
      await slow.next()
      const [delivery] = (await served.call('GET', `/v1/events/${eventId}`)).json.deliveries
      assert.equal(delivery.status, 'processing')
      const busy = await served.call('POST', `/v1/deliveries/${delivery.id}/retry`)
      assert.deepEqual([busy.status, busy.json.type], [409, 'urn:posthorn:problem:conflict'])
      await served.call('DELETE', `/v1/endpoints/${endpoint.id}`)
      assert.equal((await served.call('POST', `/v1/deliveries/${delivery.id}/retry`)).status, 409)
    } finally {
      await slow.close()
    }
  })

  test('that does not exist is 404', async () => {
    for (const id of ['dlv_00000000000000000000000', 'nonsense']) {
      assert.equal((await served.call('GET', `/v1/deliveries/${id}`)).status, 404)
      assert.equal((await served.call('POST', `/v1/deliveries/${id}/retry`)).status, 404)
    }
  })

  test('is not searched for by nonsense: every wrong parameter is named', async () => {
    const reply = await served.call(
      'GET',
      '/v1/deliveries?status=done&reason=x&limit=0&from=2026-13-01&to=now&sttus=1&error=',
    )
    const paths = reply.json.errors.map((error: Json) => error.path).sort()
    assert.deepEqual([reply.status, paths], [422, ['error', 'from', 'limit', 'reason', 'status', 'sttus', 'to']])
  })
})

test('the metrics page counts what happened', async () => {
  await settled({ type: 'order.counted', data: 1 })
  const { text, headers } = await served.call('GET', '/metrics')
  assert.match(headers.get('content-type') ?? '', /^text\/plain/)
  for (const line of [
    /^posthorn_events_accepted_total [1-9]/m,
    /^posthorn_attempts_total\{[^}]*outcome="delivered"[^}]*\} [1-9]/m,
    /^posthorn_deliveries_settled_total\{status="delivered"\} [1-9]/m,
    /^posthorn_attempt_seconds_count(?:\{[^}]*\})? [1-9]/m,
    /^posthorn_end_to_end_seconds_count [1-9]/m,
    /^posthorn_attempts_in_flight \d/m,
    /^posthorn_store_writable 1$/m,
    /^process_resident_memory_bytes \d/m,
  ]) {
    assert.match(text, line)
  }
})
