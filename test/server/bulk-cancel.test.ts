import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openServed, openServedParts, type Served } from './served.ts'

let served: Served
before(async () => {
  served = await openServed({ POSTHORN_API_KEY: 'the-admin-key-of-this-test' })
})
after(() => served.stop())

const admin = { authorization: 'Bearer the-admin-key-of-this-test' }
const call = (method: string, path: string, body?: unknown, headers = admin) => served.call(method, path, body, headers)
let topics = 0

/** Deliveries that wait at a paused endpoint of their own. */
async function waiting(count: number, tenant = 'default') {
  topics += 1
  const type = `wait${topics}.one`
  const url = 'http://127.0.0.1:9/hook'
  const { id: endpoint } = (await call('POST', '/v1/endpoints', { url, types: [type], tenant })).json
  await call('POST', `/v1/endpoints/${endpoint}/pause`)
  for (let n = 0; n < count; n++) await call('POST', '/v1/events', { type, data: n, key: `${type}-${n}`, tenant })
  return { type, endpoint }
}

test('a dry run says how many would be cancelled, and then they are', async () => {
  const { type, endpoint } = await waiting(3)
  const dry = await call('POST', '/v1/deliveries/cancel', { filter: { endpoint }, dryRun: true })
  assert.deepEqual([dry.status, dry.json.matched, dry.json.sample.length], [200, 3, 3])
  const one = await call('POST', '/v1/deliveries/cancel', { filter: { key: `${type}-1` } })
  assert.deepEqual([one.status, one.json], [200, { cancelled: 1, next: null }])
  const part = await call('POST', '/v1/deliveries/cancel', { filter: { type: `${type.split('.')[0]}.*` }, limit: 1 })
  assert.equal(part.json.cancelled, 1)
  const rest = await call('POST', '/v1/deliveries/cancel', { filter: { endpoint }, cursor: part.json.next })
  assert.deepEqual(rest.json, { cancelled: 1, next: null })
  const { items } = (await call('GET', `/v1/dead-letters?endpoint=${endpoint}&reason=cancelled`)).json
  assert.equal(items.length, 3)
})

test('to cancel all that waits has to be said in so many words, and nonsense is named', async () => {
  const { endpoint } = await waiting(1)
  for (const body of [
    {},
    { filter: {} },
    { filter: {}, dryRun: true },
    { all: false },
    { all: true, filter: { endpoint } },
  ])
    assert.equal((await call('POST', '/v1/deliveries/cancel', body)).status, 422, JSON.stringify(body))
  const wrong = { filter: { status: 'failed', statusClass: '9xx' }, limit: 0, cursor: 'x', now: 1 }
  const { json } = await call('POST', '/v1/deliveries/cancel', wrong)
  const paths = json.errors.map((error: { path: string }) => error.path).sort()
  assert.deepEqual(paths, ['cursor', 'filter.status', 'filter.statusClass', 'limit', 'now'])
  assert.equal((await call('GET', `/v1/deliveries?endpoint=${endpoint}&status=pending`)).json.items.length, 1)
  assert.ok((await call('POST', '/v1/deliveries/cancel', { all: true })).json.cancelled >= 1)
  assert.equal((await call('GET', `/v1/deliveries?endpoint=${endpoint}&status=pending`)).json.items.length, 0)
})

test('a key of one tenant cancels nothing of another, and only an admin may', async () => {
  const theirs = await waiting(1, 'acme')
  const keyOf = async (role: string) => {
    const { key } = (await call('POST', '/v1/keys', { role, tenant: 'other', name: role })).json
    return { authorization: `Bearer ${key}` }
  }
  const body = { filter: { endpoint: theirs.endpoint } }
  const other = await keyOf('admin')
  assert.deepEqual((await call('POST', '/v1/deliveries/cancel', body, other)).json, { cancelled: 0, next: null })
  assert.deepEqual((await call('POST', '/v1/deliveries/cancel', { all: true }, other)).json.cancelled, 0)
  const foreign = { filter: { tenant: 'acme' } }
  assert.equal((await call('POST', '/v1/deliveries/cancel', foreign, other)).status, 404)
  assert.equal((await call('POST', '/v1/deliveries/cancel', body, await keyOf('read'))).status, 403)
  assert.equal((await call('GET', `/v1/deliveries?endpoint=${theirs.endpoint}&status=pending`)).json.items.length, 1)
})

test('it is written down: who, what and how many', async () => {
  const audited = await openServedParts(() => ({}))
  try {
    await audited.call('POST', '/v1/deliveries/cancel', { filter: { key: 'order-42' } })
    const line = audited.logged.find(({ message }) => message === 'deliveries.cancelled')
    const { by, cancelled, filter } = line?.fields ?? {}
    assert.deepEqual([by, cancelled, filter], ['local', 0, { key: 'order-42', status: ['pending'] }])
  } finally {
    await audited.stop()
  }
})
