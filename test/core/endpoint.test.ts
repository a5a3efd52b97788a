import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointKinds, endpointStatuses, orderings } from '../../src/core/endpoint.ts'
import { laneOf } from '../../src/core/lanes.ts'

test('the words of an endpoint are those of the public surface', () => {
  assert.deepEqual(endpointKinds, ['http', 'handler', 'relay'])
  assert.deepEqual(orderings, ['none', 'key', 'endpoint'])
  assert.deepEqual(endpointStatuses, ['active', 'paused', 'disabled'])
})

test('every ordering has a rule for its lanes', () => {
  for (const ordering of orderings) assert.notEqual(laneOf(ordering, 'a'), undefined)
})
