import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { aSource, githubHeaders } from './inbound-scene.ts'
import { type Json, openServed, type Served } from './served.ts'

/** The first notice of this kind that fits, as the stream tells it. */
async function noticeOf(served: Served, kind: string, act: () => Promise<unknown>): Promise<Json> {
  const response = await fetch(`${served.url}/v1/stream?kinds=${kind}`)
  await act()
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (const [, data = ''] of text.matchAll(/^data: (.*)\n/gm)) {
      const notice = JSON.parse(data)
      if (notice.outcome !== 'delivered') return notice
    }
  }
  return assert.fail('the stream ended')
}

describe('a loop of deliveries', () => {
  let served: Served
  before(async () => {
    served = await openServed({ POSTHORN_HOPS_MAX: '3' })
  })
  after(() => served.stop())

  test('a source whose endpoint is its own /in/ URL ends at POSTHORN_HOPS_MAX, as a dead letter that says why', async () => {
    const { path } = await aSource(served, { provider: 'none', secret: undefined, type: 'round', tenant: 'round' })
    await served.call('POST', '/v1/endpoints', { url: `${served.url}${path}`, types: ['round'], tenant: 'round' })
    const ended = await noticeOf(served, 'attempt.settled', () => served.call('POST', path, 'x'))
    const { json } = await served.call('GET', `/v1/deliveries/${ended.deliveryId}`)
    assert.deepEqual(
      [json.status, json.reason, json.lastError],
      ['failed', 'permanent_status', 'HTTP 508: loop detected'],
    )
    assert.match(json.attemptLog[0].responseBody, /has passed through 4 Posthorn servers.*POSTHORN_HOPS_MAX is 3/)
    const { json: events } = await served.call('GET', '/v1/events?type=round')
    // The first one, and one for each hop that is allowed.
    assert.equal(events.items.length, 4)
  })

  test('is told by a count that grows with each hop', async (t) => {
    const sink = await openScriptedEndpoint()
    t.after(() => sink.close())
    await served.call('POST', '/v1/endpoints', { url: sink.url, types: ['grow'], tenant: 'grow' })
    const { path } = await aSource(served, { type: 'grow', tenant: 'grow' })
    await served.call('POST', '/v1/events', { type: 'grow', tenant: 'grow', data: 1 })
    assert.equal((await sink.next()).headers['posthorn-hops'], '1')
    const sent = await served.call('POST', path, '{}', { ...githubHeaders('{}', 'h'), 'posthorn-hops': '2' })
    assert.equal(sent.status, 202, sent.text)
    assert.equal((await sink.next()).headers['posthorn-hops'], '3')
  })

  test('is refused on every way in, and kept nowhere', async () => {
    const json = { type: 'way', data: 1 }
    const cloudEvent = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': '/s', 'ce-type': 'way' }
    const { path } = await aSource(served, { type: 'way' })
    const ways: readonly [string, unknown, Record<string, string>][] = [
      ['/v1/events', json, {}],
      ['/v1/events', '{}', cloudEvent],
      [
        '/v1/events',
        { specversion: '1.0', id: '2', source: '/s', type: 'way' },
        { 'content-type': 'application/cloudevents+json' },
      ],
      ['/v1/events/batch', [json, json], {}],
      ['/v1/events/way', 'raw', {}],
      [path, '{}', githubHeaders('{}', 'w')],
    ]
    for (const [way, body, headers] of ways) {
      const reply = await served.call('POST', way, body, { ...headers, 'posthorn-hops': '4' })
      assert.deepEqual([reply.status, reply.json.type], [508, 'urn:posthorn:problem:loop_detected'], way)
      const allowed = await served.call('POST', way, body, { ...headers, 'posthorn-hops': '3' })
      assert.equal(allowed.status, 202, `${way}: ${allowed.text}`)
    }
    const { json: kept } = await served.call('GET', '/v1/events?type=way')
    assert.equal(kept.items.length, ways.length + 1)
  })

  test('an unsigned request learns nothing of the limit, and a count that is none does no harm', async () => {
    const { path } = await aSource(served, { type: 'odd' })
    assert.equal((await served.call('POST', path, '{}', { 'posthorn-hops': '99' })).status, 401)
    for (const odd of ['', 'x', '-1', '1, 2', '9'.repeat(10), '9'.repeat(4_000)]) {
      const headers = { ...githubHeaders('{}', `odd-${odd.length}`), 'posthorn-hops': odd }
      assert.equal((await served.call('POST', path, '{}', headers)).status, 202, odd)
      assert.equal(
        (await served.call('POST', '/v1/events', { type: 'odd', data: 1 }, { 'posthorn-hops': odd })).status,
        202,
      )
    }
  })

  test('nobody but Posthorn sets the count', async () => {
    const event = { type: 'own', data: 1, headers: { 'posthorn-hops': '0' } }
    assert.equal((await served.call('POST', '/v1/events', event)).status, 422)
    const endpoint = { url: 'http://127.0.0.1:9/', headers: { 'posthorn-hops': '0' } }
    assert.equal((await served.call('POST', '/v1/endpoints', endpoint)).status, 422)
  })

  test('a repeat that comes by a longer way is still the same event', async () => {
    const send = (hops: string) =>
      served.call('POST', '/v1/events', { type: 'again', data: 1 }, { 'idempotency-key': 'k', 'posthorn-hops': hops })
    const first = await send('1')
    const second = await send('2')
    assert.deepEqual([second.status, second.json.id, second.json.duplicate], [202, first.json.id, true])
  })
})
