import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-key-of-the-configuration' }
let served: Served
let sink: ScriptedEndpoint
let acme: Record<string, string>
let theirs: string

const tenants = ['acme', 'other']

before(async () => {
  served = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration' })
  sink = await openScriptedEndpoint([{ status: 422 }])
  const key = await served.call('POST', '/v1/keys', { role: 'admin', tenant: 'acme', name: 'operator' }, admin)
  acme = { authorization: `Bearer ${key.json.key}` }
  for (const tenant of tenants) {
    const { id } = (await served.call('POST', '/v1/endpoints', { url: sink.url, tenant }, admin)).json
    if (tenant === 'other') theirs = id
    await served.call('POST', '/v1/events', { type: 'a.one', data: 1, tenant }, admin)
  }
  while ((await get('/v1/dead-letters', admin)).items.length < tenants.length);
})
after(async () => {
  await served.stop()
  await sink.close()
})

async function get(path: string, headers: Record<string, string>): Promise<Json> {
  return (await served.call('GET', path, undefined, headers)).json
}

const deadOf = async (tenant: string) => (await get(`/v1/dead-letters?tenant=${tenant}`, admin)).items

test('a replay of one tenant leaves the others alone, and tells by whose key it was made', async () => {
  sink.answer([{ status: 200 }])
  const everything = { filter: {} }
  const dry = await served.call('POST', '/v1/replays', { ...everything, dryRun: true }, acme)
  assert.deepEqual([dry.json.matched, dry.json.sample[0].tenant], [1, 'acme'])
  const { id, by, tenant } = (await served.call('POST', '/v1/replays', everything, acme)).json
  assert.deepEqual([by, tenant], ['operator', 'acme'])
  while ((await get(`/v1/replays/${id}`, acme)).status === 'running');
  assert.equal((await deadOf('acme')).length, 0)
  assert.equal((await deadOf('other')).length, 1)
  const all = (await served.call('POST', '/v1/replays', { ...everything, rate: 0.01 }, admin)).json
  assert.equal((await served.call('POST', `/v1/replays/${all.id}/cancel`, undefined, acme)).status, 404)
})

test('what is another tenant’s is not there: to see, to bring back, to recover, to reset, to cancel or to delete', async () => {
  const [dead] = (await get('/v1/deliveries?tenant=other', admin)).items
  const missing = [
    ['GET', '/v1/dead-letters?tenant=other', undefined],
    ['GET', '/v1/breakers?tenant=other', undefined],
    ['POST', '/v1/replays', { filter: { tenant: 'other' } }],
    ['POST', '/v1/dead-letters/discard', { filter: { tenant: 'other' } }],
    ['POST', `/v1/endpoints/${theirs}/recover`, { since: '2026-01-01' }],
    ['POST', `/v1/breakers/${theirs}/reset`, undefined],
    ['POST', `/v1/deliveries/${dead.id}/cancel`, undefined],
  ] as const
  for (const [method, path, body] of missing) {
    assert.equal((await served.call(method, path, body, acme)).status, 404, path)
  }
  for (const filter of [{ ids: [dead.id] }, { endpoint: theirs }]) {
    const dry = await served.call('POST', '/v1/replays', { filter, dryRun: true }, acme)
    assert.deepEqual(dry.json, { matched: 0, sample: [], blocked: [], leftOut: { cancelled: 0, endpoint_deleted: 0 } })
    assert.deepEqual((await served.call('POST', '/v1/dead-letters/discard', { filter }, acme)).json, { discarded: 0 })
  }
  assert.deepEqual((await served.call('POST', '/v1/dead-letters/discard', { all: true }, acme)).json, { discarded: 0 })
  const { items } = await get('/v1/breakers', acme)
  assert.deepEqual([...new Set(items.map((item: Json) => item.tenant))], ['acme'])
})
