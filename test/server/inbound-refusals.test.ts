import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { aSource, cutOff, eventOf, fromGithub, githubHeaders, rawExchange, secret } from './inbound-scene.ts'
import { openServed, openServedParts, type Served } from './served.ts'

let served: Served

before(async () => {
  served = await openServed({ POSTHORN_API_KEY: 'key-of-the-administrator' })
  const { call, ...rest } = served
  const authorization = 'Bearer key-of-the-administrator'
  // Only the API needs the key.
  served = {
    ...rest,
    call: (method, path, body, headers) =>
      call(method, path, body, path.startsWith('/v1') ? { authorization, ...headers } : headers),
  }
})
after(() => served.stop())

describe('a source', () => {
  test('asks for a signature and for no key', async () => {
    const { path } = await aSource(served)
    assert.equal((await fromGithub(served, path, '{}', 'd')).status, 202)
    assert.equal((await fetch(`${served.url}/v1/sources`)).status, 401)
    assert.equal((await fetch(`${served.url}/v1/sources`, { method: 'POST' })).status, 401)
  })

  test('is called by any name of the host', async () => {
    const { path } = await aSource(served, { provider: 'none', secret: undefined })
    const answer = await rawExchange(
      served.url,
      `POST ${path} HTTP/1.1\r\nhost: hooks.example\r\norigin: https://a.example\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}`,
    )
    assert.match(answer, /^HTTP\/1.1 202 /)
  })

  test('that does not exist is a 404, whatever its name', async () => {
    for (const name of ['', 'nobody', '__proto__', 'constructor', 'a/b', 'nobody?x=1', 'x'.repeat(2_000)]) {
      for (const method of ['GET', 'POST']) {
        const reply = await served.call(method, `/in/${name}`)
        assert.equal(reply.status, 404, name)
        assert.equal(reply.json.type, 'urn:posthorn:problem:not_found')
      }
    }
  })

  test('that was deleted is a 404', async () => {
    const { path, id } = await aSource(served)
    await served.call('DELETE', `/v1/sources/${id}`)
    assert.equal((await fromGithub(served, path, '{}', 'd')).status, 404)
  })

  test('takes what it was changed to at once', async () => {
    const { path, id } = await aSource(served)
    await served.call('PATCH', `/v1/sources/${id}`, { type: 'changed', contentTypes: ['application/json'] })
    assert.equal((await eventOf(served, await fromGithub(served, path, '{}', 'd'))).type, 'changed')
    const headers = { ...githubHeaders('{}', 'e'), 'content-type': 'text/plain' }
    assert.equal((await served.call('POST', path, '{}', headers)).status, 415)
  })

  test('offers GET and POST alone', async () => {
    const { path } = await aSource(served)
    for (const method of ['HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const reply = await fetch(served.url + path, { method })
      assert.deepEqual([reply.status, reply.headers.get('allow')], [405, 'GET, POST'], method)
    }
  })
})

describe('a request that is not to be trusted', () => {
  test('is a 401 that says no more than missing, wrong or stale', async () => {
    const { path } = await aSource(served, { provider: 'hmac', hmac: { header: 'x-sig', timestampHeader: 'x-time' } })
    const nowS = Math.floor(Date.now() / 1_000)
    const sign = (seconds: number) => createHmac('sha256', secret).update(`${seconds}.{}`).digest('hex')
    const cases: readonly [Record<string, string>, string][] = [
      [{}, 'signature_missing'],
      [{ 'x-sig': sign(nowS) }, 'signature_missing'],
      [{ 'x-sig': 'guess', 'x-time': String(nowS) }, 'signature_wrong'],
      [
        { 'x-sig': sign(nowS).replace(/.$/, (last) => (last === '0' ? '1' : '0')), 'x-time': String(nowS) },
        'signature_wrong',
      ],
      [{ 'x-sig': sign(nowS), 'x-time': 'now' }, 'signature_wrong'],
      [{ 'x-sig': sign(nowS - 400), 'x-time': String(nowS - 400) }, 'timestamp_stale'],
      [{ 'x-sig': sign(nowS + 400), 'x-time': String(nowS + 400) }, 'timestamp_stale'],
    ]
    for (const [headers, code] of cases) {
      const reply = await served.call('POST', path, '{}', headers)
      assert.deepEqual([reply.status, reply.json.type], [401, `urn:posthorn:problem:${code}`])
      assert.equal(reply.headers.get('content-type'), 'application/problem+json')
      assert.notEqual(reply.headers.get('www-authenticate'), null)
      assert.ok(!reply.text.includes(secret) && !reply.text.includes(sign(nowS)))
    }
  })

  test('is told in the log with its source and code, once in a while and without secrets', async (t) => {
    const parts = await openServedParts(() => ({}))
    t.after(() => parts.stop())
    const { path, id, name } = await aSource(parts)
    for (let i = 0; i < 5; i++) await parts.call('POST', path, '{}', { 'x-hub-signature-256': 'sha256=forged' })
    const refusals = parts.logged.filter(({ message }) => message === 'source.refused')
    assert.deepEqual(
      refusals.map(({ fields }) => fields),
      [{ sourceId: id, source: name, tenant: 'default', provider: 'github', code: 'signature_wrong', untold: 0 }],
    )
    assert.ok(!JSON.stringify(parts.logged).includes(secret))
  })
})

describe('the limits of a source', () => {
  test('are told in the log when a body is larger, so that somebody can raise them', async (t) => {
    const parts = await openServedParts(() => ({}))
    t.after(() => parts.stop())
    const large = Buffer.alloc(101, 'x')
    const chunked = { body: new Blob([large]).stream(), duplex: 'half' } as RequestInit
    for (const given of [{ body: large }, chunked]) {
      const { path, id } = await aSource(parts, { bodyBytesMax: 100 })
      const headers = githubHeaders(large, 'd')
      assert.equal((await fetch(parts.url + path, { method: 'POST', headers, ...given })).status, 413)
      const told = parts.logged.filter(({ message, fields }) => message === 'source.refused' && fields.sourceId === id)
      assert.deepEqual(
        told.map(({ fields }) => fields.code),
        ['too_large'],
      )
    }
  })

  test('hold for the declared length and for what comes in chunks', async () => {
    const { path } = await aSource(served, { bodyBytesMax: 100 })
    const body = Buffer.alloc(101, 'x')
    assert.equal((await fromGithub(served, path, body, 'd')).status, 413)
    const chunked = await fetch(served.url + path, {
      method: 'POST',
      headers: githubHeaders(body, 'd'),
      body: new Blob([body.subarray(0, 60), body.subarray(60)]).stream(),
      duplex: 'half',
    } as RequestInit)
    assert.equal(chunked.status, 413)
    assert.equal((await fromGithub(served, path, body.subarray(1), 'd')).status, 202)
  })

  test('hold for content types, without their parameters and in any case', async () => {
    const { path } = await aSource(served, { contentTypes: ['application/json', 'Text/Plain'] })
    const send = (type: string | null) => {
      const { 'content-type': _, ...headers } = githubHeaders('{}', '')
      return served.call(
        'POST',
        path,
        Buffer.from('{}'),
        type === null ? { ...headers, 'content-type': '' } : { ...headers, 'content-type': type },
      )
    }
    for (const type of ['application/json', 'APPLICATION/JSON; charset=utf-8', 'text/plain']) {
      assert.equal((await send(type)).status, 202, type)
    }
    for (const type of ['text/html', 'application/jsonx', null])
      assert.equal((await send(type)).status, 415, String(type))
    assert.equal((await served.call('GET', path)).status, 200)
  })
})

describe('a hostile request', () => {
  const head = (path: string, more: string) => `POST ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n${more}\r\n`

  test('with a body in chunks is read to its end', async () => {
    const { path } = await aSource(served)
    const lines = Object.entries(githubHeaders('{"a":1}', 'chunks')).map(([name, value]) => `${name}: ${value}\r\n`)
    const chunks = [...'{"a":1}'].map((char) => `1\r\n${char}\r\n`).join('')
    const answer = await rawExchange(
      served.url,
      `${head(path, `${lines.join('')}transfer-encoding: chunked\r\n`)}${chunks}0\r\n\r\n`,
    )
    assert.match(answer, /^HTTP\/1.1 202 /)
  })

  test('with huge headers is refused before it is looked at', async () => {
    const { path } = await aSource(served)
    const answer = await rawExchange(served.url, head(path, `x-long: ${'x'.repeat(20_000)}\r\n`))
    assert.match(answer, /^HTTP\/1.1 431 /)
  })

  test('with a signature twice, or one of thousands, is refused', async () => {
    const { path } = await aSource(served, { provider: 'stripe' })
    const t = Math.floor(Date.now() / 1_000)
    const many = `t=${t},${'v1=00,'.repeat(2_000)}v1=11`
    assert.equal((await served.call('POST', path, '{}', { 'stripe-signature': many })).status, 401)
    const { path: other } = await aSource(served)
    const signature = `x-hub-signature-256: ${githubHeaders('{}', 'd')['x-hub-signature-256']}\r\n`
    const twice = `${signature}${signature}content-length: 2\r\n`
    assert.match(await rawExchange(served.url, `${head(other, twice)}{}`), /^HTTP\/1.1 401 /)
  })

  test('that ends before its body does is no event, and the server goes on', async () => {
    const { path } = await aSource(served, { tenant: 'cut' })
    await cutOff(served.url, `${head(path, 'content-length: 100\r\n')}{}`)
    assert.equal((await fromGithub(served, path, '{}', 'd')).status, 202)
    assert.equal((await served.call('GET', '/v1/events?tenant=cut')).json.items.length, 1)
  })
})
