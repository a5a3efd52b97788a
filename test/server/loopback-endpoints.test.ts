import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openServed } from './served.ts'

/** An empty variable is one that nobody set. */
const unset = { POSTHORN_ALLOW_PRIVATE: '' }
const loopback = ['http://127.0.0.1:9/', 'http://127.8.9.1:9/', 'http://[::1]:9/', 'http://localhost:9/']
const elsewhere = ['http://10.0.0.1/', 'http://192.168.1.5/', 'http://169.254.1.1/', 'http://169.254.169.254/latest']
const inIPv6 = ['http://[fd00::1]/', 'http://[fe80::1]/', 'http://0.0.0.0/', 'http://[::]/']

describe('without a setting for private addresses', () => {
  test('a server without a key delivers to this machine', async (t) => {
    const served = await openServed(unset)
    t.after(() => served.stop())
    const endpoint = await openScriptedEndpoint()
    t.after(() => endpoint.close())
    const created = await served.call('POST', '/v1/endpoints', { url: endpoint.url })
    assert.equal(created.status, 201, created.text)
    await served.call('POST', '/v1/events', { type: 'order.created', data: 1 })
    assert.equal((await endpoint.next()).headers['posthorn-event-type'], 'order.created')
  })

  test('a server without a key takes every way to write loopback, and no other private address', async (t) => {
    const served = await openServed(unset)
    t.after(() => served.stop())
    for (const url of loopback) {
      assert.equal((await served.call('POST', '/v1/endpoints', { url })).status, 201, url)
    }
    for (const url of [...elsewhere, ...inIPv6]) {
      const refused = await served.call('POST', '/v1/endpoints', { url })
      assert.equal(refused.status, 422, url)
      assert.match(refused.text, /POSTHORN_ALLOW_PRIVATE/, url)
    }
  })

  test('a server with a key takes no private address at all', async (t) => {
    const apiKey = 'k'.repeat(20)
    const served = await openServed({ ...unset, POSTHORN_API_KEY: apiKey })
    t.after(() => served.stop())
    const headers = { authorization: `Bearer ${apiKey}` }
    for (const url of [...loopback, ...elsewhere, ...inIPv6]) {
      assert.equal((await served.call('POST', '/v1/endpoints', { url }, headers)).status, 422, url)
    }
  })

  test('where a name leads inside is told to the operator, not to a tenant', async (t) => {
    const apiKey = 'k'.repeat(20)
    const served = await openServed({ ...unset, POSTHORN_API_KEY: apiKey })
    t.after(() => served.stop())
    const operator = { authorization: `Bearer ${apiKey}` }
    const { json } = await served.call('POST', '/v1/keys', { role: 'admin', tenant: 'acme' }, operator)
    const refusalFor = async (headers: Record<string, string>) => {
      const reply = await served.call('POST', '/v1/endpoints', { url: 'http://localhost:9/' }, headers)
      assert.equal(reply.status, 422, reply.text)
      return reply.json.errors[0].message
    }
    const inside = /127\.0\.0\.1|::1/
    assert.match(await refusalFor(operator), inside)
    assert.doesNotMatch(await refusalFor({ authorization: `Bearer ${json.key}` }), inside)
  })
})
