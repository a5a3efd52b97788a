import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { aSource, fromGithub } from './inbound-scene.ts'
import { type Json, openServed, type Served } from './served.ts'

/** What each provider signs with, as its documentation writes it. */
const signatures = [
  'X-Hub-Signature-256',
  'X-Hub-Signature',
  'Stripe-Signature',
  'X-Slack-Signature',
  'X-Shopify-Hmac-Sha256',
  'Shopify-Hmac-Sha256',
  'X-Twilio-Signature',
  'X-Square-HmacSha256-Signature',
  'X-Square-Signature',
  'Webhook-Signature',
  'Svix-Signature',
]

describe('the signature of a kept request', () => {
  let served: Served
  const keys: Record<string, string> = {}
  before(async () => {
    served = await openServed()
    for (const [name, fields] of Object.entries({
      read: { role: 'read' },
      tenantRead: { role: 'read', tenant: 'default' },
      admin: { role: 'admin' },
      tenantAdmin: { role: 'admin', tenant: 'default' },
    })) {
      keys[name] = (await served.call('POST', '/v1/keys', fields)).json.key
    }
  })
  after(() => served.stop())

  const headersSeenBy = async (key: string | undefined, id: string): Promise<Json> => {
    const reply = await served.call('GET', `/v1/events/${id}`, undefined, { authorization: `Bearer ${key}` })
    assert.equal(reply.status, 200, reply.text)
    return reply.json.request.headers
  }

  test('is not shown to a reader, who could send it again as a new event', async () => {
    const { path } = await aSource(served)
    const { id } = (await fromGithub(served, path, '{}', 'first')).json
    for (const reader of [keys.read, keys.tenantRead]) {
      const seen = await headersSeenBy(reader, id)
      assert.deepEqual([seen['x-github-event'], seen['x-hub-signature-256']], ['push', '•••'])
    }
    for (const admin of [keys.admin, keys.tenantAdmin]) {
      assert.match((await headersSeenBy(admin, id))['x-hub-signature-256'], /^sha256=[0-9a-f]{64}$/)
    }
  })

  test('is hidden whatever the provider, also when its source is gone', async () => {
    const { path, id: sourceId } = await aSource(served, { provider: 'none', secret: undefined })
    const sent = Object.fromEntries([...signatures, 'X-Plain'].map((name) => [name, `value of ${name}`]))
    const { id } = (await served.call('POST', path, '{}', sent)).json
    await served.call('DELETE', `/v1/sources/${sourceId}`)
    const seen = await headersSeenBy(keys.read, id)
    for (const name of signatures) assert.equal(seen[name.toLowerCase()], '•••', name)
    assert.equal(seen['x-plain'], 'value of X-Plain')
  })

  test('is hidden in the header that a source names itself, for its tenant alone', async () => {
    const { path } = await aSource(served, { provider: 'none', secret: undefined })
    await aSource(served, { provider: 'hmac', hmac: { header: 'x-own' } })
    await aSource(served, { provider: 'hmac', hmac: { header: 'x-others' }, tenant: 'others' })
    const { id } = (await served.call('POST', path, '{}', { 'x-own': 'a', 'x-others': 'b' })).json
    const seen = await headersSeenBy(keys.read, id)
    assert.deepEqual([seen['x-own'], seen['x-others']], ['•••', 'b'])
  })

  for (const [what, change] of [
    [
      'its source names another',
      (id: string) => served.call('PATCH', `/v1/sources/${id}`, { hmac: { header: 'x-new' } }),
    ],
    ['its source is gone', (id: string) => served.call('DELETE', `/v1/sources/${id}`)],
  ] as const) {
    test(`is hidden in the header that a source named itself, also when ${what} now`, async () => {
      const secret = 'k'.repeat(32)
      const { path, id: sourceId } = await aSource(served, { provider: 'hmac', secret, hmac: { header: 'x-once' } })
      const signature = createHmac('sha256', secret).update('{}').digest('hex')
      const sent = await served.call('POST', path, '{}', { 'x-once': signature })
      assert.equal(sent.status, 202, sent.text)
      assert.ok((await change(sourceId)).status < 300)
      assert.equal((await headersSeenBy(keys.read, sent.json.id))['x-once'], '•••')
      assert.equal((await headersSeenBy(keys.admin, sent.json.id))['x-once'], signature)
    })
  }

  test('is in no other answer that a reader gets', async () => {
    const { path } = await aSource(served)
    const signed = await fromGithub(served, path, '{"a":1}', 'elsewhere')
    const { id } = signed.json
    const signature = (await headersSeenBy(keys.admin, id))['x-hub-signature-256']
    const authorization = `Bearer ${keys.read}`
    for (const url of ['/v1/events', `/v1/events/${id}`, `/v1/deliveries?event=${id}`, `/v1/events/${id}/body`]) {
      const reply = await served.call('GET', url, undefined, { authorization })
      assert.equal(reply.status, 200)
      assert.ok(!reply.text.includes(signature) && ![...reply.headers.values()].includes(signature), url)
    }
  })
})
