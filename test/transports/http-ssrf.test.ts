import assert from 'node:assert/strict'
import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { openHttpTransport } from '../../src/transports/http/http-transport.ts'
import type { Resolve } from '../../src/transports/http/system-dns.ts'
import { openScriptedEndpoint, parcelFor } from '../support/scripted-endpoint.ts'

/** Everything listens here that must never be reached; it stands for the machine's own services. */
const canary = net.createServer((socket) => {
  touched++
  socket.destroy()
})
let touched = 0
let port = 0
before(async () => {
  canary.listen(0, '0.0.0.0')
  await once(canary, 'listening')
  port = (canary.address() as AddressInfo).port
})
after(() => canary.close())

const never = new AbortController().signal
const timeoutMs = 2_000

/** Hosts that mean this machine or its cloud, as a URL can spell them. */
const literals = [
  ...[
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0x7f.1',
    '0177.0.0.1',
    '017700000001',
    '127.1',
    '127.0.1',
    '127.0.0.1.',
  ],
  ...['0', '0.0.0.0', '0x0', '[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]'],
  ...['[::127.0.0.1]', '[::ffff:0:127.0.0.1]', '[64:ff9b::127.0.0.1]', '[2002:7f00:1::]', '[::5efe:127.0.0.1]'],
  ...['①②⑦.0.0.1', '127。0。0。1', '１２７.0.0.1', '%31%32%37.0.0.1', '127.0.0.1%2e', '169.254.169.254', '[fe80::1]'],
  ...['[fd00:ec2::254]', '100.100.100.200', '168.63.129.16', '10.0.0.1', '192.168.0.1', '255.255.255.255'],
]
const names = [
  'localhost',
  'LOCALHOST',
  'localhost.',
  'ⓛocalhost',
  'metadata.google.internal',
  'metadata.google.internal.',
]
const addresses = [
  '127.0.0.1',
  '::1',
  '::ffff:127.0.0.1',
  '0.0.0.0',
  '::',
  '169.254.169.254',
  '64:ff9b::7f00:1',
  '10.0.0.1',
]

for (const host of [...literals, ...names]) {
  test(`does not connect to ${host}`, async () => {
    const transport = openHttpTransport({ userAgent: 'test', allowPrivate: [] })
    const url = `http://${host}:${port}/`
    const report = await transport.deliver(parcelFor(url, { timeoutMs }), never)
    assert.equal(report.kind, 'blocked')
    assert.ok((report.kind === 'blocked' && report.message.length > 0) === true)
    assert.notEqual(await transport.refusal(url), null)
    await transport.close()
    assert.equal(touched, 0)
  })
}

for (const scheme of ['http', 'https']) {
  test(`does not connect to a name that leads to a closed address, alone or among others (${scheme})`, async () => {
    for (const address of addresses) {
      for (const others of [[], ['8.8.8.8'], ['2606:4700::1111']]) {
        const resolve: Resolve = async () => [...others, address].map((one) => ({ address: one, ttlS: 30 }))
        const transport = openHttpTransport({ userAgent: 'test', allowPrivate: [], resolve })
        const url = `${scheme}://friendly.test:${port}/`
        assert.equal((await transport.deliver(parcelFor(url, { timeoutMs }), never)).kind, 'blocked')
        assert.notEqual(await transport.refusal(url), null)
        await transport.close()
      }
    }
    assert.equal(touched, 0)
  })
}

test('connects to the address that was checked when the name changes its mind right after', async () => {
  // Open is 127.0.0.2 alone; the canary listens on the same port of 127.0.0.1.
  await using friendly = await openScriptedEndpoint([{ body: 'fine' }], { host: '127.0.0.2' })
  const twin = net.createServer(() => touched++).listen(friendly.port, '127.0.0.1')
  await once(twin, 'listening')
  let questions = 0
  const resolve: Resolve = async () => [{ address: questions++ === 0 ? '127.0.0.2' : '127.0.0.1', ttlS: 0 }]
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: ['127.0.0.2'], resolve })
  const url = `http://rebind.test:${friendly.port}/`
  assert.equal(await transport.refusal(url), null)
  for (let i = 0; i < 5; i++) {
    const report = await transport.deliver(parcelFor(url, { timeoutMs }), never)
    assert.ok(report.kind === 'answered' && report.body === 'fine')
  }
  assert.equal(questions, 1)
  assert.equal(friendly.received[0]?.headers.host, `rebind.test:${friendly.port}`)
  await transport.close()
  twin.close()
  assert.equal(touched, 0)
})

test('follows no redirect, wherever it leads', async () => {
  const targets = [...literals, ...names].map((host) => `http://${host}:${port}/`)
  for (const status of [301, 302, 303, 307, 308]) {
    await using friendly = await openScriptedEndpoint((_, index) => ({
      status,
      headers: { location: encodeURI(targets[index % targets.length] ?? '') },
    }))
    const transport = openHttpTransport({ userAgent: 'test', allowPrivate: ['127.0.0.1'] })
    for (const _ of targets) {
      const report = await transport.deliver(parcelFor(friendly.url, { timeoutMs }), never)
      assert.ok(report.kind === 'answered' && report.statusCode === status)
    }
    assert.equal(friendly.received.length, targets.length)
    await transport.close()
  }
  assert.equal(touched, 0)
})

test('goes around any proxy that the environment names', async () => {
  const names = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY']
  const kept = names.map((name) => process.env[name])
  for (const name of names) process.env[name] = `http://127.0.0.1:${port}`
  await using friendly = await openScriptedEndpoint()
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: ['127.0.0.1'] })
  assert.equal((await transport.deliver(parcelFor(friendly.url, { timeoutMs }), never)).kind, 'answered')
  await transport.close()
  for (const [i, name] of names.entries()) {
    const value = kept[i]
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
  assert.equal(touched, 0)
})

test('refuses what is not http, and is silent about a name that nobody knows yet', async () => {
  const resolve: Resolve = async () => Promise.reject(Object.assign(new Error('no'), { code: 'ENOTFOUND' }))
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: [], resolve })
  for (const url of ['ftp://example.com/', 'file:///etc/passwd', 'gopher://127.0.0.1/', 'nonsense', '']) {
    assert.notEqual(await transport.refusal(url), null)
    assert.equal((await transport.deliver(parcelFor(url), never)).kind, 'blocked')
  }
  assert.equal(await transport.refusal('https://not-yet.test/'), null)
  const report = await transport.deliver(parcelFor('https://not-yet.test/'), never)
  assert.ok(report.kind === 'unreachable' && report.code === 'ENOTFOUND')
  await transport.close()
})

test('a name that leads inside tells only the operator where', async () => {
  const blocked: [string, string][] = []
  const transport = openHttpTransport({
    userAgent: 'Posthorn/test',
    allowPrivate: [],
    resolve: async () => [{ address: '10.1.2.3', ttlS: 5 }],
    onBlocked: (host, detail) => blocked.push([host, detail]),
  })
  const url = 'https://inside.test/'
  assert.equal(await transport.refusal(url), 'inside.test leads to an address that is not allowed here')
  assert.match((await transport.refusal(url, { isOperator: true })) ?? '', /10\.1\.2\.3.*POSTHORN_ALLOW_PRIVATE/)
  const report = await transport.deliver(parcelFor(url), new AbortController().signal)
  assert.deepEqual(report, { kind: 'blocked', message: 'inside.test leads to an address that is not allowed here' })
  assert.equal(blocked[0]?.[0], 'inside.test')
  assert.match(blocked[0]?.[1] ?? '', /10\.1\.2\.3/)
  await transport.close()
})
