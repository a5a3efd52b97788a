import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openServed, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-admin-key-of-this-test' }
let served: Served
let sink: ScriptedEndpoint

before(async () => {
  served = await openServed({ POSTHORN_API_KEY: 'the-admin-key-of-this-test' })
  sink = await openScriptedEndpoint(() => ({ status: 200 }))
})
after(async () => {
  await served.stop()
  await sink.close()
})

const call = (method: string, path: string, body?: unknown, headers = admin) => served.call(method, path, body, headers)

async function delivered() {
  const url = `${sink.url}/hooks?a=1`
  const headers = { 'x-team': 'a-credential', 'x-both': 'endpoint' }
  const { id: endpoint } = (await call('POST', '/v1/endpoints', { url, headers, types: ['sent.one'] })).json
  const arrived = sink.next()
  const event = { type: 'sent.one', data: { n: 1 }, headers: { 'x-both': 'event', 'x-own': 'o' } }
  const { id: eventId } = (await call('POST', '/v1/events', event)).json
  const received = await arrived
  for (;;) {
    const [delivery] = (await call('GET', `/v1/deliveries?event=${eventId}`)).json.items
    if (delivery.status === 'delivered') return { id: delivery.id as string, endpoint, url, received }
  }
}

test('a delivery shows what its last attempt sent, header by header, without the signature', async () => {
  const { id, endpoint, url, received } = await delivered()
  const { request } = (await call('GET', `/v1/deliveries/${id}`)).json
  assert.deepEqual([request.attempt, request.target, request.endpointChangedAt], [1, url, null])
  assert.equal(request.size, received.body.length)
  const { 'webhook-signature': signature, ...shown } = request.headers
  assert.equal(signature, '•••')
  for (const [name, value] of Object.entries(shown)) assert.equal(received.headers[name], value, name)
  const added = ['host', 'connection', 'content-length', 'user-agent', 'accept-encoding', 'webhook-signature']
  const sent = Object.keys(received.headers).filter((name) => !added.includes(name))
  assert.deepEqual(Object.keys(shown).sort(), sent.sort())
  await call('PATCH', `/v1/endpoints/${endpoint}`, { headers: { 'x-team': 'other' } })
  const after = (await call('GET', `/v1/deliveries/${id}`)).json.request
  assert.match(after.endpointChangedAt, /^\d{4}-/)
  await call('DELETE', `/v1/endpoints/${endpoint}`)
  const gone = (await call('GET', `/v1/deliveries/${id}`)).json.request
  assert.deepEqual([gone.target, gone.headers['x-own'], gone.headers['x-team']], [null, 'o', undefined])
})

test('values of the endpoint are hidden from a key that only reads', async () => {
  const { id } = await delivered()
  const { key } = (await call('POST', '/v1/keys', { role: 'read', name: 'reader' })).json
  const reader = { authorization: `Bearer ${key}` }
  const { headers } = (await call('GET', `/v1/deliveries/${id}`, undefined, reader)).json.request
  assert.deepEqual([headers['x-team'], headers['x-both'], headers['x-own']], ['•••', 'event', 'o'])
})

test('what was never tried has sent nothing', async () => {
  const { id: endpoint } = (await call('POST', '/v1/endpoints', { url: sink.url, types: ['unsent.one'] })).json
  await call('POST', `/v1/endpoints/${endpoint}/pause`)
  await call('POST', '/v1/events', { type: 'unsent.one', data: 1 })
  const [{ id }] = (await call('GET', `/v1/deliveries?endpoint=${endpoint}`)).json.items
  assert.equal((await call('GET', `/v1/deliveries/${id}`)).json.request, null)
})
