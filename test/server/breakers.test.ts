import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, type Served } from './served.ts'

let served: Served
let sink: ScriptedEndpoint

before(async () => {
  served = await openServed()
  sink = await openScriptedEndpoint([{ status: 503 }])
})
after(async () => {
  await served.stop()
  await sink.close()
})

const get = async (path: string): Promise<Json> => (await served.call('GET', path)).json
const post = (path: string, body?: unknown) => served.call('POST', path, body)

async function until(path: string, isThere: (answer: Json) => boolean): Promise<Json> {
  for (;;) {
    const answer = await get(path)
    if (isThere(answer)) return answer
  }
}

test('an open breaker is listed with its end, and a person can close it', async () => {
  const breaker = { threshold: 1, cooldown: '1h' }
  const { id } = (await post('/v1/endpoints', { url: sink.url, types: ['a.*'], breaker })).json
  await post('/v1/events', { type: 'a.one', data: 1 })
  const { items } = await until('/v1/breakers?state=open', (answer) => answer.items.length === 1)
  const [{ endpointId, tenant, state, until: end, failingSince }] = items
  assert.deepEqual([endpointId, tenant, state], [id, 'default', 'open'])
  assert.ok(Date.parse(end) > Date.parse(failingSince))
  const { condition } = await get(`/v1/endpoints/${id}`)
  assert.deepEqual([condition.state, condition.until], ['open', end])
  sink.answer([{ status: 200 }])
  const reset = await post(`/v1/breakers/${id}/reset`)
  assert.deepEqual(
    [reset.status, reset.json.state, reset.json.until, reset.json.heldUntil],
    [200, 'closed', null, null],
  )
  await until(`/v1/deliveries?endpoint=${id}&status=delivered`, (answer) => answer.items.length === 1)
  assert.deepEqual((await get('/v1/breakers?state=open')).items, [])
})

test('a breaker of nobody is 404, and a wrong state is named', async () => {
  assert.equal((await post('/v1/breakers/ep_none/reset')).status, 404)
  const wrong = await served.call('GET', '/v1/breakers?state=ajar')
  assert.deepEqual([wrong.status, wrong.json.errors[0].path], [422, 'state'])
})

test('how long an endpoint may do nothing but fail is said with it', async () => {
  const create = (body: object) => post('/v1/endpoints', { url: sink.url, types: ['b.*'], ...body })
  assert.equal((await create({})).json.disableAfter, '5d')
  const never = (await create({ disableAfter: false })).json
  assert.equal(never.disableAfter, false)
  const changed = await served.call('PATCH', `/v1/endpoints/${never.id}`, { disableAfter: '2d' })
  assert.equal(changed.json.disableAfter, '2d')
  const wrong = await create({ disableAfter: '5s' })
  assert.deepEqual([wrong.status, wrong.json.errors[0].path], [422, 'disableAfter'])
})

test('a delivery that waits is cancelled; in progress or ended it is 409', async () => {
  sink.answer([{ status: 503 }])
  const retry = { strategy: 'schedule', delays: ['1h'], maxAttempts: 5 }
  await post('/v1/endpoints', { url: sink.url, types: ['c.*'], retry, ordering: 'endpoint' })
  const { id: eventId } = (await post('/v1/events', { type: 'c.one', data: 1 })).json
  const waiting = await until(`/v1/events/${eventId}`, ({ deliveries }) => deliveries[0].retryAfter !== null)
  const { id } = waiting.deliveries[0]
  sink.answer(['hang'])
  const { id: nextId } = (await post('/v1/events', { type: 'c.one', data: 2 })).json
  const cancelled = await post(`/v1/deliveries/${id}/cancel`)
  assert.deepEqual([cancelled.status, cancelled.json.status, cancelled.json.reason], [202, 'failed', 'cancelled'])
  // Its lane is free: the next one is being tried.
  const next = await until(`/v1/events/${nextId}`, ({ deliveries }) => deliveries[0].status === 'processing')
  for (const delivery of [id, next.deliveries[0].id]) {
    const refused = await post(`/v1/deliveries/${delivery}/cancel`)
    assert.deepEqual([refused.status, refused.json.type], [409, 'urn:posthorn:problem:conflict'])
  }
  assert.equal((await post('/v1/deliveries/dlv_00000000000000000000000/cancel')).status, 404)
})
