import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changedMeanwhile, nameTaken, splitSecrets, uniqueName } from '../../src/core/registry.ts'
import { aHandler, anEndpoint, aRelayEndpoint, aSource, t0 } from '../support/builders.ts'

const relay = { id: 'rly_1', name: 'home', tenant: 'acme', hash: 'ab', createdAt: t0 }
const key = { id: 'key_1', name: 'ci', role: 'send', tenant: 'acme', hash: 'ab', createdAt: t0 } as const

test('names are unique for sources everywhere, for relays and handlers within their tenant, and for nothing else', () => {
  const handler = aHandler({ tenant: 'acme', handler: 'invoice' })
  assert.deepEqual(uniqueName('source', aSource({ name: 'main', tenant: 'acme' })), { scope: '', name: 'main' })
  assert.deepEqual(uniqueName('relay', relay), { scope: 'acme', name: 'home' })
  assert.deepEqual(uniqueName('endpoint', handler), { scope: 'acme', name: 'invoice' })
  assert.deepEqual(
    [uniqueName('endpoint', anEndpoint()), uniqueName('endpoint', aRelayEndpoint()), uniqueName('key', key)],
    [null, null, null],
  )
})

test('secrets are split off, the headers of endpoints with them, and both parts make the whole', () => {
  const endpoint = anEndpoint({ headers: { authorization: 'Bearer a' } })
  const parts = splitSecrets('endpoint', endpoint)
  assert.deepEqual(parts.secrets, { secrets: endpoint.secrets, headers: endpoint.headers })
  assert.deepEqual({ ...parts.settings, ...parts.secrets }, endpoint)
  const source = aSource()
  assert.deepEqual(splitSecrets('source', source).secrets, { secrets: source.secrets })
  assert.deepEqual(splitSecrets('relay', relay), { settings: relay, secrets: null })
  assert.deepEqual(splitSecrets('key', key), { settings: key, secrets: null })
})

test('a conflict names what it is about, in the words that people use', () => {
  assert.equal(changedMeanwhile('key', 'key_1'), 'The API key key_1 was changed by somebody else; read it again.')
  assert.equal(nameTaken('relay', 'home'), 'Another relay is named home; choose another name.')
})
