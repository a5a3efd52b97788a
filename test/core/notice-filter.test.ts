import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { everyNotice, isKnownToOne, noticeMatcher } from '../../src/core/notice-filter.ts'

const accepted: Notice = {
  kind: 'event.accepted',
  tenant: 'acme',
  eventId: 'evt_1',
  type: 'order.created',
  deliveries: 1,
}
const broken: Notice = { kind: 'breaker.changed', tenant: 'acme', endpointId: 'ep_1', from: 'closed', to: 'open' }

test('a filter without conditions passes everything', () => {
  assert.ok([accepted, broken].every(noticeMatcher(everyNotice)))
})

test('each condition leaves out what does not meet it, or has nothing that it could ask', () => {
  const passes = (filter: Partial<typeof everyNotice>) =>
    [accepted, broken].map(noticeMatcher({ ...everyNotice, ...filter }))
  assert.deepEqual(passes({ tenant: 'acme' }), [true, true])
  assert.deepEqual(passes({ tenant: 'globex' }), [false, false])
  assert.deepEqual(passes({ kinds: ['lane.stuck', 'breaker.changed'] }), [false, true])
  assert.deepEqual(passes({ endpointId: 'ep_1' }), [false, true])
  assert.deepEqual(passes({ endpointId: 'ep_2' }), [false, false])
  assert.deepEqual(passes({ types: ['invoice.*', 'order.*'] }), [true, false])
  assert.deepEqual(passes({ types: ['invoice.*'] }), [false, false])
  assert.deepEqual(passes({ tenant: 'acme', kinds: ['breaker.changed'], endpointId: 'ep_2' }), [false, false])
})

test('what every process finds in the store is published by all of them, all else by one', () => {
  assert.deepEqual(
    [accepted, broken, { kind: 'endpoint.changed' }, { kind: 'replay.changed' }].map((notice) =>
      isKnownToOne(notice as Notice),
    ),
    [true, true, false, false],
  )
})
