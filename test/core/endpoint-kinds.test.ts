import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultBreaker } from '../../src/core/circuit-breaker.ts'
import { endpointKinds } from '../../src/core/endpoint.ts'
import { type KindFacts, kindFacts, mayBeDisabled } from '../../src/core/endpoint-kinds.ts'
import { presets } from '../../src/core/retry-policy.ts'
import { aHandler, anEndpoint, aRelayEndpoint } from '../support/builders.ts'

type Fact = keyof Omit<KindFacts, 'defaults'>

const table: readonly (readonly [Fact, ...unknown[]])[] = [
  // The fact, and its value for http, handler and relay.
  ['runsHere', false, true, false],
  ['mayBeDisabled', true, false, false],
  ['holdsOnRetryAfter', true, false, true],
  ['retriesOnReturn', false, false, true],
  ['answersInError', false, false, true],
  ['absentee', null, 'handler', 'hub'],
  ['signs', true, false, true],
  ['forwardsRequest', false, true, true],
  ['targetFields', 'URL', 'handler', 'relay, route'],
]

for (const [fact, ...values] of table) {
  test(`${fact} of http, handler and relay endpoints is ${values.join(', ')}`, () => {
    assert.deepEqual(
      endpointKinds.map((kind) => kindFacts[kind][fact]),
      values,
    )
  })
}

test('every fact of a kind is in the table above', () => {
  const names = [...table.map(([fact]) => fact), 'defaults']
  for (const kind of endpointKinds) assert.deepEqual(Object.keys(kindFacts[kind]).toSorted(), names.toSorted())
})

test('an endpoint that says nothing gets the documented rules of its kind', () => {
  const { http, handler, relay } = kindFacts
  const four = { '4xx': 'permanent' }
  assert.deepEqual(Object.values(http.defaults), ['none', 10, 15_000, 'webhook', defaultBreaker, {}])
  assert.deepEqual(Object.values(handler.defaults), ['none', 8, 30_000, 'processing', null, {}])
  assert.deepEqual(Object.values(relay.defaults), ['endpoint', 100, 15_000, 'relay', null, four])
  for (const kind of endpointKinds) assert.ok(presets[kindFacts[kind].defaults.preset])
})

test('an endpoint that may be disabled says after how long, and no other does', () => {
  for (const endpoint of [anEndpoint(), aHandler(), aRelayEndpoint()]) {
    assert.equal('disableAfterMs' in endpoint, mayBeDisabled(endpoint))
  }
})

test('an endpoint that signs has a secret, and no other does', () => {
  for (const endpoint of [anEndpoint(), aHandler(), aRelayEndpoint()]) {
    assert.equal(endpoint.secrets.length > 0, kindFacts[endpoint.kind].signs)
  }
})
