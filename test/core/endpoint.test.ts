import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointKinds, endpointName, endpointStatuses, orderings } from '../../src/core/endpoint.ts'
import { laneOf } from '../../src/core/lanes.ts'
import { aHandler, anEndpoint, aRelayEndpoint } from '../support/builders.ts'

test('the words of an endpoint are those of the public surface', () => {
  assert.deepEqual(endpointKinds, ['http', 'handler', 'relay'])
  assert.deepEqual(orderings, ['none', 'key', 'endpoint'])
  assert.deepEqual(endpointStatuses, ['active', 'paused', 'disabled'])
})

test('every ordering has a rule for its lanes', () => {
  for (const ordering of orderings) assert.notEqual(laneOf(ordering, 'a'), undefined)
})

test('an endpoint is known by its description, else by where it leads, and never by its credentials', () => {
  assert.equal(endpointName(anEndpoint({ description: 'the shop' })), 'the shop')
  assert.equal(endpointName(anEndpoint({ url: 'https://me:secret@shop.example:8443/a?b' })), 'shop.example:8443')
  assert.equal(endpointName(aHandler()), 'orders')
  assert.equal(endpointName(aRelayEndpoint()), 'home/default')
})
