import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { aSource, eventOf, fromGithub, githubHeaders, secret } from './inbound-scene.ts'
import { openServed, type Served } from './served.ts'

let served: Served

before(async () => {
  served = await openServed()
})
after(() => served.stop())

describe('a verified webhook', () => {
  test('is an event with the exact bytes and the content type that came', async () => {
    const { path } = await aSource(served, { type: 'raw.bytes' })
    for (const body of [
      randomBytes(300),
      Buffer.from('{ "a" : 1.0, "big":12345678901234567890 }\n'),
      Buffer.alloc(1),
    ]) {
      const headers = { ...githubHeaders(body, ''), 'content-type': 'application/x-thing; v=1' }
      const reply = await served.call('POST', path, body, headers)
      const event = await eventOf(served, reply)
      assert.deepEqual(
        [event.type, event.contentType, event.size],
        ['raw.bytes', 'application/x-thing; v=1', body.length],
      )
      const response = await fetch(`${served.url}/v1/events/${event.id}/body`)
      assert.deepEqual(Buffer.from(await response.arrayBuffer()), body)
    }
  })

  test('is delivered as it came', async (t) => {
    const sink = await openScriptedEndpoint()
    t.after(() => sink.close())
    const { path } = await aSource(served, { tenant: 'delivered' })
    await served.call('POST', '/v1/endpoints', { url: sink.url, types: ['github.*'], tenant: 'delivered' })
    const body = '{"ref":"refs/heads/main" , "n":1.0}'
    const reply = await fromGithub(served, path, body, 'd')
    const received = await sink.next()
    assert.equal(received.body.toString(), body)
    assert.equal(received.headers['webhook-id'], reply.json.id)
    assert.equal(received.headers['posthorn-event-type'], 'github.push')
  })

  test('that is compressed is delivered with its content encoding', async (t) => {
    const sink = await openScriptedEndpoint()
    t.after(() => sink.close())
    const { path } = await aSource(served, { tenant: 'zipped' })
    await served.call('POST', '/v1/endpoints', { url: sink.url, tenant: 'zipped' })
    const body = gzipSync('{"ref":"refs/heads/main"}')
    const reply = await served.call('POST', path, body, { ...githubHeaders(body, 'z'), 'content-encoding': 'gzip' })
    assert.equal(reply.status, 202, reply.text)
    const received = await sink.next()
    assert.deepEqual(received.body, body)
    assert.equal(received.headers['content-encoding'], 'gzip')
  })

  test('tells its sender nothing but the id', async () => {
    const { path } = await aSource(served)
    const { json, status } = await fromGithub(served, path, '{}', 'd')
    assert.equal(status, 202)
    assert.deepEqual(Object.keys(json), ['id', 'duplicate'])
    assert.equal(json.duplicate, false)
  })

  test('has its type and key from its headers and its body', async () => {
    const { path } = await aSource(served, { type: 'gh.{x-github-event}.{$.action?}', key: '{$.repository.id}' })
    const opened = await eventOf(
      served,
      await fromGithub(served, path, '{"action":"opened","repository":{"id":7}}', '1'),
    )
    assert.deepEqual([opened.type, opened.key], ['gh.push.opened', '7'])
    const bare = await eventOf(served, await fromGithub(served, path, '[]', '2'))
    assert.deepEqual([bare.type, bare.key], ['gh.push', null])
    const odd = await eventOf(served, await fromGithub(served, path, '{"action":"ö ..!","repository":{"id":""}}', '3'))
    assert.deepEqual([odd.type, odd.key], ['gh.push.__._', null])
  })

  test('that is no JSON loses nothing but the words in its type', async () => {
    const { path } = await aSource(served, { type: 'gh.{$.action}', key: '{$.id}' })
    for (const [index, body] of ['{"action":', '', 'null', `${'['.repeat(20_000)}`].entries()) {
      const event = await eventOf(served, await fromGithub(served, path, body, `n${index}`))
      assert.deepEqual([event.type, event.key, event.size], ['gh.unknown', null, body.length])
    }
  })

  test('has a key that is too long cut down to its hash', async () => {
    const { path } = await aSource(served, { key: '{$.id}' })
    const id = 'x'.repeat(300)
    const long = await eventOf(served, await fromGithub(served, path, JSON.stringify({ id }), id))
    assert.match(long.key, /^sha256:[0-9a-f]{64}$/)
    assert.equal((await fromGithub(served, path, '{}', id)).json.duplicate, true)
    assert.equal((await fromGithub(served, path, '{}', `${id}y`)).json.duplicate, false)
  })

  test('brings its method, query and headers, but nothing that gives a right', async () => {
    const { path, name } = await aSource(served)
    const headers: Record<string, string> = {
      ...githubHeaders('{}', 'd'),
      authorization: 'Basic c2VjcmV0',
      cookie: 'session=1',
      'proxy-authorization': 'Basic c2VjcmV0',
      'x-own': 'kept',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    }
    const { request, headers: own } = await eventOf(
      served,
      await served.call('POST', `${path}?a=1&b=%20`, '{}', headers),
    )
    assert.deepEqual([request.source, request.method, request.query], [name, 'POST', 'a=1&b=%20'])
    assert.equal(request.headers['x-own'], 'kept')
    assert.equal(request.headers['x-hub-signature-256'], headers['x-hub-signature-256'])
    for (const left of ['authorization', 'cookie', 'proxy-authorization', 'host', 'connection', 'content-length']) {
      assert.ok(!(left in request.headers), left)
    }
    assert.deepEqual(own, { traceparent: headers.traceparent })
  })
})

describe('a repeat', () => {
  test('is a duplicate of the first, also with another body', async () => {
    const { path } = await aSource(served, { tenant: 'repeats' })
    const first = await fromGithub(served, path, '{"n":1}', 'same')
    for (const body of ['{"n":1}', '{"n":2}']) {
      const again = await fromGithub(served, path, body, 'same')
      assert.deepEqual([again.status, again.json], [202, { id: first.json.id, duplicate: true }])
    }
    const events = (await served.call('GET', '/v1/events?tenant=repeats')).json.items
    assert.deepEqual(
      events.map((event: { id: string }) => event.id),
      [first.json.id],
    )
  })

  test('at the same moment is one event', async () => {
    const { path } = await aSource(served)
    const replies = await Promise.all(Array.from({ length: 20 }, () => fromGithub(served, path, '{}', 'race')))
    assert.equal(new Set(replies.map(({ json }) => json.id)).size, 1)
    assert.equal(replies.filter(({ json }) => !json.duplicate).length, 1)
  })

  test('is known within its source alone', async () => {
    const [one, other] = [await aSource(served), await aSource(served)]
    assert.equal((await fromGithub(served, one.path, '{}', 'd')).json.duplicate, false)
    assert.equal((await fromGithub(served, other.path, '{}', 'd')).json.duplicate, false)
  })

  test('that was refused does not take the id', async () => {
    const { path } = await aSource(served)
    const forged = { ...githubHeaders('{}', 'd'), 'x-hub-signature-256': 'sha256=00' }
    assert.equal((await served.call('POST', path, '{}', forged)).status, 401)
    assert.equal((await fromGithub(served, path, '{}', 'd')).json.duplicate, false)
  })
})

describe('a secret', () => {
  test('that was replaced counts as long as it is kept', async () => {
    const { path, id } = await aSource(served)
    const send = (key: string) => served.call('POST', path, '{}', githubHeaders('{}', '', key))
    await served.call('POST', `/v1/sources/${id}/rotate-secret`, { secret: 'a-newer-secret', keepOldFor: '1h' })
    assert.equal((await send(secret)).status, 202)
    assert.equal((await send('a-newer-secret')).status, 202)
    await served.call('POST', `/v1/sources/${id}/rotate-secret`, { secret: 'the-newest-secret', keepOldFor: '0s' })
    assert.equal((await send(secret)).status, 401)
    assert.equal((await send('a-newer-secret')).status, 401)
    assert.equal((await send('the-newest-secret')).status, 202)
  })
})

describe('a question', () => {
  test('whether somebody is there is answered', async () => {
    const { path } = await aSource(served)
    const reply = await served.call('GET', path)
    assert.deepEqual([reply.status, reply.text], [200, ''])
  })

  test('with a challenge gets it back as plain text', async () => {
    const { path } = await aSource(served)
    for (const query of ['challenge=abc-123', 'hub.mode=subscribe&hub.challenge=abc-123&hub.verify_token=x']) {
      const reply = await served.call('GET', `${path}?${query}`)
      assert.deepEqual([reply.status, reply.text], [200, 'abc-123'])
      assert.equal(reply.headers.get('content-type'), 'text/plain')
      assert.equal(reply.headers.get('x-content-type-options'), 'nosniff')
    }
  })

  test('with a challenge that could mean something is refused', async () => {
    const { path } = await aSource(served)
    for (const challenge of ['', 'a b', '%00', '%0d%0aset-cookie:a', '%C3%A9', 'x'.repeat(257)]) {
      const reply = await served.call('GET', `${path}?challenge=${challenge}`)
      assert.equal(reply.status, 400, challenge)
      assert.equal(reply.headers.get('content-type'), 'application/problem+json')
    }
  })

  test('of Slack is answered when it is signed, and makes no event', async () => {
    const { path } = await aSource(served, { provider: 'slack', tenant: 'asked' })
    const body = JSON.stringify({ type: 'url_verification', challenge: 'abc' })
    const timestamp = String(Math.floor(Date.now() / 1_000))
    const signature = createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')
    const headers = { 'x-slack-request-timestamp': timestamp, 'x-slack-signature': `v0=${signature}` }
    const reply = await served.call('POST', path, body, headers)
    assert.deepEqual([reply.status, reply.text], [200, 'abc'])
    assert.equal((await served.call('POST', path, body)).status, 401)
    assert.deepEqual((await served.call('GET', '/v1/events?tenant=asked')).json.items, [])
  })
})
