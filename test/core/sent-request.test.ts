import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sentRequest } from '../../src/core/sent-request.ts'
import { aHandler, anEndpoint, anEvent, aRelayEndpoint, t0 } from '../support/builders.ts'

const headers = { 'x-token': 'credential' }
const request = { source: 'main', method: 'POST', query: '', headers: { 'x-hub': 'signed', 'content-type': 'a/b' } }
const event = anEvent({ headers: { 'X-Own': 'o' }, request })
const given = { deliveryId: 'dlv_1', last: { number: 3, startedAt: t0 + 1_999 }, showHeaders: true }

test('the request of an attempt has the headers of event and endpoint, and ours', () => {
  const { attempt, target, size, headers: sent } = sentRequest(event, anEndpoint({ headers }), given)
  assert.deepEqual([attempt, target, size], [3, 'https://shop.example/hooks', event.body.length])
  assert.deepEqual(sent, {
    'content-type': 'application/json',
    'x-token': 'credential',
    'x-own': 'o',
    'webhook-id': event.id,
    'webhook-timestamp': String(t0 / 1_000 + 1),
    'webhook-signature': '•••',
    'posthorn-delivery': 'dlv_1',
    'posthorn-attempt': '3',
    'posthorn-hops': '1',
    'posthorn-event-type': 'order.created',
  })
})

test('what a source received is among them where it is sent on, and its content type is not', () => {
  for (const endpoint of [anEndpoint({ forwardHeaders: true }), aRelayEndpoint(), aHandler()]) {
    const { headers: sent } = sentRequest(event, endpoint, given)
    assert.deepEqual([sent['x-hub'], sent['content-type']], ['signed', 'application/json'])
  }
})

test('values that may be credentials are hidden, the names are not', () => {
  const endpoint = anEndpoint({ headers, forwardHeaders: true })
  const { headers: sent } = sentRequest(event, endpoint, { ...given, showHeaders: false })
  assert.deepEqual([sent['x-token'], sent['x-hub'], sent['x-own']], ['•••', '•••', 'o'])
})

test('a handler gets no headers of ours, and a relay endpoint says its route', () => {
  const handler = sentRequest(event, aHandler({ headers }), given)
  assert.deepEqual(
    [handler.target, Object.keys(handler.headers).sort()],
    ['handler orders', ['content-type', 'x-hub', 'x-own']],
  )
  assert.equal(sentRequest(event, aRelayEndpoint(), given).target, 'relay home/default')
})

test('it says when the endpoint was changed after the attempt, and that it was deleted', () => {
  const changed = (updatedAt: number) => sentRequest(event, anEndpoint({ updatedAt }), given).endpointChangedAt
  assert.deepEqual([changed(t0 + 1_999), changed(t0 + 2_000)], [null, t0 + 2_000])
  const gone = sentRequest(event, null, given)
  assert.deepEqual([gone.target, gone.headers['webhook-signature'], gone.headers['x-own']], [null, undefined, 'o'])
})
