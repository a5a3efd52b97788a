// What is refused by the head of a request is refused before anything of its body is read.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { aSource, githubHeaders, secret } from './inbound-scene.ts'
import { openServed, type Served } from './served.ts'

let served: Served
before(async () => {
  served = await openServed()
})
after(() => served.stop())

type Headers = Readonly<Record<string, string>>
const nowS = Math.floor(Date.now() / 1_000)
const hex = '0'.repeat(64)
const base64 = `${'A'.repeat(43)}=`
const standardSecret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`
const hmacScheme = { header: 'x-sig', prefix: 'v1=', timestampHeader: 'x-time' }
const form = { 'content-type': 'application/x-www-form-urlencoded' }

/** By provider: the source, and heads that cannot be good. */
const hopeless: Readonly<Record<string, readonly [object, Readonly<Record<string, Headers>>]>> = {
  github: [
    {},
    {
      'no signature': {},
      'a short signature': { 'x-hub-signature-256': 'sha256=0' },
      'no prefix': { 'x-hub-signature-256': hex },
      'no hex': { 'x-hub-signature-256': `sha256=${'x'.repeat(64)}` },
    },
  ],
  stripe: [
    {},
    {
      'no signature': {},
      'no time': { 'stripe-signature': `v1=${hex}` },
      'a stale time': { 'stripe-signature': `t=${nowS - 4_000},v1=${hex}` },
      'a short signature': { 'stripe-signature': `t=${nowS},v1=0` },
    },
  ],
  slack: [
    {},
    {
      'no signature': {},
      'no signature on a long form': form,
      'no time': { 'x-slack-signature': `v0=${hex}` },
      'a stale time': { 'x-slack-signature': `v0=${hex}`, 'x-slack-request-timestamp': String(nowS - 4_000) },
      'a short signature': { 'x-slack-signature': 'v0=0', 'x-slack-request-timestamp': String(nowS) },
    },
  ],
  shopify: [{}, { 'no signature': {}, 'a short signature': { 'x-shopify-hmac-sha256': 'AAAA' } }],
  square: [{}, { 'no signature': {}, 'a short signature': { 'x-square-hmacsha256-signature': 'AAAA' } }],
  twilio: [
    {},
    {
      'no signature': form,
      'a short signature': { ...form, 'x-twilio-signature': 'AAAA' },
      'a body that nothing covers': { 'x-twilio-signature': `${'A'.repeat(27)}=`, 'content-type': 'text/plain' },
    },
  ],
  standard: [
    { secret: standardSecret },
    {
      'no signature': {},
      'no id': { 'webhook-signature': `v1,${base64}`, 'webhook-timestamp': String(nowS) },
      'a stale time': { 'webhook-signature': `v1,${base64}`, 'webhook-id': 'a', 'webhook-timestamp': '1' },
      'a short signature': { 'svix-signature': 'v1,AAAA', 'svix-id': 'a', 'svix-timestamp': String(nowS) },
    },
  ],
  hmac: [
    { hmac: hmacScheme },
    {
      'no signature': {},
      'another prefix': { 'x-sig': `v2=${hex}`, 'x-time': String(nowS) },
      'no time': { 'x-sig': `v1=${hex}` },
      'a stale time': { 'x-sig': `v1=${hex}`, 'x-time': '1' },
    },
  ],
}

describe('without its body, which is never asked for,', () => {
  for (const [provider, [fields, heads]] of Object.entries(hopeless)) {
    for (const [why, headers] of Object.entries(heads)) {
      test(`a request of ${provider} with ${why} is refused`, async () => {
        const { path } = await aSource(served, { provider, ...fields })
        const socket = await connected()
        socket.write(headOf(path, { ...headers, 'content-length': '100000' }))
        assert.match(await answerOf(socket), /^HTTP\/1\.1 401 /)
        socket.destroy()
      })
    }
  }

  test('a request of twilio with a wrong signature of the hash of its body is refused', async () => {
    const { path } = await aSource(served, { provider: 'twilio' })
    const socket = await connected()
    const headers = { 'x-twilio-signature': `${'A'.repeat(27)}=`, 'content-length': '100000' }
    socket.write(headOf(`${path}?bodySHA256=${hex}`, headers))
    assert.match(await answerOf(socket), /^HTTP\/1\.1 401 /)
    socket.destroy()
  })

  test('a GET is answered', async () => {
    const { path } = await aSource(served)
    const socket = await connected()
    socket.write(`GET ${path}?challenge=abc HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n`)
    assert.match(await answerOf(socket), /^HTTP\/1\.1 200 [\s\S]*abc$/)
    socket.destroy()
  })
})

describe('a connection whose request was refused by its head', () => {
  test('is good for the next request, once the body has come', async () => {
    const { path } = await aSource(served)
    const socket = await connected()
    socket.write(headOf(path, { 'content-length': '100000' }))
    assert.match(await answerOf(socket), /^HTTP\/1\.1 401 /)
    socket.write('x'.repeat(100_000))
    socket.write(`${headOf(path, { ...githubHeaders('{}', 'next'), 'content-length': '2' })}{}`)
    assert.match(await answerOf(socket), /^HTTP\/1\.1 202 /)
    socket.destroy()
  })

  test('is closed when the body does not come to its end', async () => {
    const { path } = await aSource(served)
    for (const framing of [{ 'content-length': '100000' }, { 'transfer-encoding': 'chunked' }]) {
      const socket = await connected()
      socket.write(`${headOf(path, framing)}5\r\nhello\r\n`)
      assert.match(await answerOf(socket), /^HTTP\/1\.1 401 /)
      await once(socket.resume(), 'close')
    }
  })
})

describe('a client that asks whether to send its body', () => {
  const expecting = { expect: '100-continue' }

  test('is told no by the refusal itself, and that the connection ends', async () => {
    const { path } = await aSource(served)
    const socket = await connected()
    socket.write(headOf(path, { ...expecting, 'content-length': '100000' }))
    const answer = await answerOf(socket)
    assert.match(answer, /^HTTP\/1\.1 401 /)
    assert.match(answer, /\r\nconnection: close\r\n/i)
    await once(socket.resume(), 'close')
  })

  test('is asked for it where it can be good, on every route, and the connection goes on', async () => {
    const { path } = await aSource(served)
    const event = '{"type":"a","data":1}'
    const json = { 'content-type': 'application/json' }
    const sent: readonly [string, Headers, string][] = [
      [path, githubHeaders('{}', 'asked'), '{}'],
      ['/v1/events', json, event],
      ['/v1/events/batch', json, `[${event}]`],
    ]
    const socket = await connected()
    for (const [where, headers, body] of sent) {
      socket.write(headOf(where, { ...headers, ...expecting, 'content-length': String(body.length) }))
      assert.match(await answerOf(socket), /^HTTP\/1\.1 100 Continue\r\n\r\n$/)
      socket.write(body)
      assert.match(await answerOf(socket), /^HTTP\/1\.1 202 /, where)
    }
    socket.destroy()
  })
})

test('the check of a certificate by Slack is still answered, and nothing longer is read for it', async () => {
  const { path } = await aSource(served, { provider: 'slack' })
  const reply = await served.call('POST', path, 'ssl_check=1&token=x', form)
  assert.deepEqual([reply.status, reply.text], [200, ''])
  const socket = await connected()
  socket.write(headOf(path, { ...form, 'content-length': '1025' }))
  assert.match(await answerOf(socket), /^HTTP\/1\.1 401 /)
  socket.destroy()
})

test('a form with more fields than anybody sends is kept, and its fields are not looked at', async () => {
  const { path } = await aSource(served, { provider: 'hmac', hmac: { header: 'x-sig' }, type: 'f.{$.name}' })
  const typeOf = async (fields: number) => {
    const body = ['name=b', ...Array.from({ length: fields - 1 }, (_, i) => `f${i}=x`)].join('&')
    const signature = createHmac('sha256', secret).update(body).digest('hex')
    const reply = await served.call('POST', path, body, { ...form, 'x-sig': signature })
    assert.equal(reply.status, 202, reply.text)
    return (await served.call('GET', `/v1/events/${reply.json.id}`)).json.type
  }
  assert.equal(await typeOf(1_000), 'f.b')
  assert.equal(await typeOf(1_001), 'f.unknown')
})

function headOf(path: string, headers: Headers): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${path} HTTP/1.1\r\nhost: localhost\r\n${lines.join('')}\r\n`
}

async function connected(): Promise<Socket> {
  const { port } = new URL(served.url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  await once(socket, 'connect')
  return socket
}

const answerOf = async (socket: Socket) => String((await once(socket, 'data'))[0])
