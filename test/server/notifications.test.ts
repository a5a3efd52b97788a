import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { openServed } from './served.ts'

test('dead letters arrive as a signed webhook of the tenant concerned, and a refused one causes no other', async (t) => {
  const served = await openServed()
  const bad = await openScriptedEndpoint([{ status: 400 }])
  const ops = await openScriptedEndpoint([{ status: 400 }, { status: 200 }])
  const others = await openScriptedEndpoint()
  t.after(async () => {
    await served.stop()
    await Promise.all([bad.close(), ops.close(), others.close()])
  })
  const create = async (body: object) => (await served.call('POST', '/v1/endpoints', body)).json
  const { id: endpointId } = await create({ url: bad.url, types: ['order.*'], tenant: 'acme' })
  const { secret } = await create({ url: ops.url, types: ['posthorn.*'], tenant: 'acme' })
  // Neither who wants everything nor another tenant gets to see it.
  await create({ url: others.url, types: ['*'], tenant: 'acme' })
  await create({ url: others.url, types: ['posthorn.*'], tenant: 'other' })
  await served.call('POST', '/v1/events', { type: 'order.created', data: { n: 1 }, tenant: 'acme' })
  const told = await ops.next()
  const headers = Object.fromEntries(Object.entries(told.headers).map(([name, value]) => [name, String(value)]))
  const payload = new Webhook(secret).verify(told.body, headers) as { type: string; data: Record<string, unknown> }
  assert.equal(payload.type, 'posthorn.dead_letters')
  const { sample, ...data } = payload.data
  assert.deepEqual(data, { endpointId, count: 1, reasons: { permanent_status: 1 } })
  assert.match(String(sample), /^dlv_/)
  // The notification itself was refused with 400, which is a dead letter too: it makes no second one.
  const find = async () => (await served.call('GET', '/v1/deliveries?type=posthorn.dead_letters')).json.items
  let items = await find()
  while (items[0]?.status !== 'failed') items = await find()
  const [first] = (await served.call('GET', '/metrics')).text.match(/^posthorn_notifications_total.*$/gm) ?? []
  assert.equal(first, 'posthorn_notifications_total{type="posthorn.dead_letters"} 1')
  assert.equal(items.length, 1)
  assert.equal(ops.received.length, 1)
  assert.deepEqual(
    others.received.map(({ headers }) => headers['posthorn-event-type']),
    ['order.created'],
  )
})

test('an endpoint that is gone is told as disabled, and one that is down as a breaker that opened', async (t) => {
  const served = await openServed()
  const gone = await openScriptedEndpoint([{ status: 410 }])
  const down = await openScriptedEndpoint([{ status: 503 }])
  const ops = await openScriptedEndpoint()
  t.after(async () => {
    await served.stop()
    await Promise.all([gone.close(), down.close(), ops.close()])
  })
  const create = async (body: object) => (await served.call('POST', '/v1/endpoints', body)).json
  await create({ url: ops.url, types: ['posthorn.endpoint.*', 'posthorn.breaker.*'] })
  const { id: goneId } = await create({ url: gone.url, types: ['a'] })
  const { id: downId } = await create({ url: down.url, types: ['b'], breaker: { threshold: 1 } })
  await served.call('POST', '/v1/events', { type: 'a', data: 1 })
  const disabled = JSON.parse((await ops.next()).body.toString())
  assert.deepEqual([disabled.type, disabled.data.endpointId], ['posthorn.endpoint.disabled', goneId])
  assert.match(disabled.data.reason, /410/)
  await served.call('POST', '/v1/events', { type: 'b', data: 1 })
  const opened = JSON.parse((await ops.next()).body.toString())
  assert.deepEqual([opened.type, opened.data.endpointId], ['posthorn.breaker.opened', downId])
})

test('a hub whose line is cut for too long is told as away, and counted', async (t) => {
  const served = await openServed({ POSTHORN_RELAY_AWAY_AFTER: '1s' })
  const ops = await openScriptedEndpoint()
  t.after(async () => {
    await served.stop()
    await ops.close()
  })
  const metric = async (line: string) => (await served.call('GET', '/metrics')).text.split('\n').includes(line)
  const relay = (await served.call('POST', '/v1/relays', { name: 'home', tenant: 'acme' })).json
  await served.call('POST', '/v1/endpoints', { url: ops.url, types: ['posthorn.relay.*'], tenant: 'acme' })
  const headers = { authorization: `Bearer ${relay.key}` }
  const hub = await ScriptedHub.connect(`${served.url.replace('http', 'ws')}/v1/relay`, {}, { headers })
  assert.ok(await metric('posthorn_relays_connected 1'))
  hub.ws.terminate()
  const { type, data } = JSON.parse((await ops.next()).body.toString())
  assert.deepEqual([type, data.relayId, data.name], ['posthorn.relay.away', relay.id, 'home'])
  assert.ok(await metric('posthorn_relays_connected 0'))
  assert.ok(await metric('posthorn_relays_away 1'))
  assert.ok(await metric('posthorn_relay_links_total{event="lost"} 1'))
})

test('a backlog that is too long is told of by a server that looks at it again and again', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const served = await openServed({ POSTHORN_BACKLOG_MAX: '2' })
  const ops = await openScriptedEndpoint()
  t.after(async () => {
    await served.stop()
    await ops.close()
  })
  const create = async (body: object) => (await served.call('POST', '/v1/endpoints', body)).json
  await create({ url: ops.url, types: ['posthorn.backlog.*'] })
  const { id: endpointId } = await create({ url: 'http://127.0.0.1:9/', types: ['a'] })
  await served.call('POST', `/v1/endpoints/${endpointId}/pause`)
  for (let n = 0; n < 3; n++) await served.call('POST', '/v1/events', { type: 'a', data: n })
  t.mock.timers.tick(60_000)
  const { type, data } = JSON.parse((await ops.next()).body.toString())
  assert.deepEqual(
    [type, data],
    ['posthorn.backlog.high', { pending: 3, max: 2, endpoints: [{ endpointId, pending: 3 }] }],
  )
})
