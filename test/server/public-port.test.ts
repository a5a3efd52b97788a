import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { freePort } from '../support/server-process.ts'
import { describedBy } from './described.ts'
import { openServed, type Served } from './served.ts'

describe('the public port', () => {
  let served: Served
  let url: string
  before(async () => {
    const port = await freePort()
    url = `http://127.0.0.1:${port}`
    served = await openServed({ POSTHORN_PUBLIC_PORT: String(port), POSTHORN_PUBLIC_HOST: '127.0.0.1' })
    const made = await served.call('POST', '/v1/sources', { name: 'plain', provider: 'none', type: 'plain' })
    assert.equal(made.status, 201, made.text)
  })
  after(() => served.stop())

  test('takes in what providers send, under any Host', async () => {
    for (const base of [url, served.url]) {
      const response = await fetch(`${base}/in/plain`, {
        method: 'POST',
        body: 'x',
        headers: { origin: 'https://a.b' },
      })
      assert.equal(response.status, 202, base)
    }
    assert.equal((await served.call('GET', '/v1/events?type=plain')).json.items.length, 2)
  })

  test('knows nothing else: every other route of the API is a 404', async () => {
    const api = describedBy((await served.call('GET', '/openapi.json')).json)
    const others = api.operations.filter(({ path }) => !path.startsWith('/in/'))
    assert.ok(others.length > 40)
    for (const { method, path } of others) {
      const response = await fetch(`${url}${path.replace(/\{\w+\}/g, 'x')}`, { method })
      assert.equal(response.status, 404, `${method} ${path}`)
      assert.equal(response.headers.get('content-type'), 'application/problem+json')
    }
    assert.equal((await fetch(`${url}/in/../v1/events`)).status, 404)
    assert.equal((await fetch(`${url}/in/unknown`, { method: 'POST', body: 'x' })).status, 404)
  })
})

test('a server without a public port that was asked for does not start', async () => {
  const port = await freePort()
  const first = await openServed({ POSTHORN_PORT: String(port) })
  try {
    const second = openServed({ POSTHORN_PUBLIC_PORT: String(port), POSTHORN_PUBLIC_HOST: '127.0.0.1' })
    await assert.rejects(second, /set POSTHORN_PUBLIC_PORT to another/)
  } finally {
    await first.stop()
  }
})
