import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { folderFor, serverFor } from '../cli/server.ts'
import { addressIn, introductionOf, startExample } from './example.ts'

type Order = Readonly<{ id: string; item: string; eventId: string }>

describe('examples/outbound-app', () => {
  test('sells a horn, and the customer hears of it with a signature that holds', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const env = { POSTHORN_URL: server.url, SHOP_PORT: '0', CUSTOMER_PORT: '0' }
    const example = startExample(t, 'outbound-app', env)
    const shop = await addressIn(example, /^shop: listens/)
    const response = await fetch(`${shop}/orders`, { method: 'POST', body: '{"item":"horn","price":12.50}' })
    assert.equal(response.status, 201)
    const order = (await response.json()) as Order
    const line = await example.line(/^customer: got/)
    assert.match(line, new RegExp(`"id":"${order.id}","item":"horn".* at attempt 1, signature ok$`))
    const event = await server.json<{ deliveries: { status: string }[] }>(['events', 'show', order.eventId])
    assert.deepEqual(
      event.deliveries.map(({ status }) => status),
      ['delivered'],
    )
  })

  test('the customer refuses what is not signed by the shop', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const env = { POSTHORN_URL: server.url, SHOP_PORT: '0', CUSTOMER_PORT: '0' }
    const example = startExample(t, 'outbound-app', env)
    await example.line(/^shop: listens/)
    const hook = await addressIn(example, /^customer: listens/)
    const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': `${Math.floor(Date.now() / 1000)}` }
    const forged = { ...headers, 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')}` }
    const response = await fetch(hook, { method: 'POST', body: '{"data":{}}', headers: forged })
    assert.equal(response.status, 400)
  })

  test('says how to run it', () => {
    assert.match(introductionOf('outbound-app'), /npm run example outbound-app/)
  })
})
