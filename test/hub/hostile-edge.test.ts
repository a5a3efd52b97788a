import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { test } from 'node:test'
import { closeCodes, encodeDeliver } from '../../src/transports/relay/protocol.ts'
import { HubScene, routeTo } from './hub-scene.ts'

const garbage: Readonly<Record<string, string | Buffer>> = {
  'text that is no JSON': 'hello?',
  'a message without a kind': '{}',
  'a list': '[]',
  'a message with wrong fields': '{"kind":"recall"}',
  'an endpoint without a timeout': '{"kind":"endpoint","endpoint":"ep_1","route":"main"}',
  'an empty binary frame': Buffer.alloc(0),
  'a binary frame of noise': Buffer.alloc(64, 0xa5),
  'a head that is longer than its frame': Buffer.from([0, 0, 1, 0, 0x7b, 0x7d]),
  'a head that is no delivery': headOnly('{"kind":"deliver"}'),
  'a head of null': headOnly('null'),
  'a name that has no room in the reason of a close': endpointWith('語'.repeat(200)),
  'a name that has no end': endpointWith('x'.repeat(99_999)),
}
for (const [what, data] of Object.entries(garbage)) {
  test(`closes the link on ${what}, says so, and comes back`, async (t) => {
    const scene = new HubScene(t)
    const edge = await scene.edge()
    await scene.hub({ edge: edge.url })
    const link = await edge.link()
    link.ws.send(data)
    const { code } = await link.next('error')
    assert.equal(code, 'malformed')
    assert.equal((await link.closed).code, closeCodes.protocol)
    await edge.link()
  })
}

test('passes over kinds and fields of a newer version, and what only hubs say', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  link.ws.send('{"kind":"compliment","text":"well done"}')
  link.ws.send('{"kind":"hello","version":1}')
  link.describe({ route: 'main', ...{ colour: 'blue' } })
  link.send({ kind: 'welcome', version: 1, software: 'again', relay: 'home', silenceMsMax: 1 })
  link.deliver({ delivery: 'dlv_1', ...{ mood: 'good' } })
  assert.equal((await link.ack()).delivery, 'dlv_1')
})

test('does not take frames that are larger than it said', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const hub = await scene.hub({ edge: edge.url })
  const link = await edge.link()
  // The length alone: whoever only announces it is cut off as well.
  const header = Buffer.alloc(10)
  header[0] = 0x82
  header[1] = 127
  header.writeBigUInt64BE(BigInt(link.hello.frameBytesMax + 1), 2)
  link.socket.write(header)
  assert.match((await hub.event('disconnected')).message, /WS_ERR_UNSUPPORTED_MESSAGE_LENGTH/)
  await edge.link()
})

test('does not blow up what is small only on the wire', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge({ compress: true })
  const hub = await scene.hub({ edge: edge.url, compress: true })
  const link = await edge.link()
  link.ws.send(Buffer.alloc(link.hello.frameBytesMax + 1), { compress: true })
  assert.match((await hub.event('disconnected')).message, /WS_ERR_UNSUPPORTED_MESSAGE_LENGTH/)
})

test('holds no more than twice its credit, however much is sent', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target(['hang'])
  await scene.hub({ edge: edge.url, routes: routeTo(target), timing: { graceMs: 0 } })
  const link = await edge.link()
  link.describe()
  for (let n = 0; n <= 2 * link.hello.credit.frames; n++) link.deliver({ delivery: `dlv_${n}` })
  assert.equal((await link.next('error')).code, 'credit')
  assert.equal((await link.closed).code, closeCodes.protocol)
})

test('takes nothing before the welcome, and no version that it does not speak', async (t) => {
  const scene = new HubScene(t)
  const rude = await scene.edge({ welcome: null })
  const target = await scene.target()
  await scene.hub({ edge: rude.url, routes: routeTo(target) })
  const first = await rude.link()
  first.describe()
  first.deliver({ delivery: 'dlv_1' })
  assert.equal((await first.next('error')).code, 'no_welcome')
  assert.equal(target.connections(), 0)

  const newer = await scene.edge({ welcome: { version: 2 } })
  await scene.hub({ edge: newer.url })
  assert.equal((await (await newer.link()).next('error')).code, 'version')
})

test('is not told by the edge where a route leads', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  const other = await scene.target()
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  const link = await edge.link()
  const headers = { host: `127.0.0.1:${other.port}`, 'x-forwarded-host': 'evil', 'content-length': '1' }
  link.describe({ route: other.url.slice(0, 64) })
  link.deliver({ delivery: 'dlv_1' })
  assert.deepEqual((await link.next('returned')).deliveries, ['dlv_1'])
  link.describe({ headers, ...{ url: other.url } })
  const request = { source: 's', method: 'DELETE', query: `x HTTP/1.1\r\nhost: evil\r\n\r\n`, headers: {} }
  link.deliver({ delivery: 'dlv_2', event: { request, headers: { host: 'evil', 'x-a': 'b\r\nx-evil: 1' } } })
  await link.ack()
  const { headers: got, method } = await target.next()
  assert.deepEqual([got.host, got['x-evil'], method], [`127.0.0.1:${target.port}`, undefined, 'POST'])
  assert.equal(other.connections(), 0)
})

test('comes back to whoever answers with anything but a WebSocket', async (t) => {
  const answers = [
    'SSH-2.0-OpenSSH\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
    '\0\0\0\0',
    'HTTP/1.1 101 Switching\r\n\r\n',
  ]
  let visits = 0
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.end(answers[visits++ % answers.length] ?? '')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as net.AddressInfo
  const hub = await new HubScene(t).hub({ edge: `ws://127.0.0.1:${port}` })
  for (const _ of answers) assert.notEqual((await hub.event('disconnected')).retryInMs, null)
  assert.ok(visits >= answers.length)
})

test('survives an edge that cuts it off at any byte of a delivery', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target()
  await scene.hub({ edge: edge.url, routes: routeTo(target) })
  for (const share of [0.1, 0.5, 0.9]) {
    const link = await edge.link()
    link.describe()
    const length = 2_000
    const header = Buffer.from([0x82, 126, length >> 8, length & 0xff])
    link.socket.write(Buffer.concat([header, Buffer.alloc(Math.floor(length * share))]))
    link.socket.destroy()
  }
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'dlv_1' })
  assert.equal((await link.ack()).delivery, 'dlv_1')
})

function headOnly(head: string): Buffer {
  const frame = encodeDeliver({ head: {} as never, body: Buffer.alloc(0) })
  const json = Buffer.from(head)
  frame.writeUInt32BE(json.length, 0)
  return Buffer.concat([frame.subarray(0, 4), json])
}

/** All of it is right but one header. */
function endpointWith(headerName: string): string {
  const rules = { kind: 'endpoint', endpoint: 'ep_1', route: 'main', timeoutMs: 1, classify: {}, secrets: [] }
  return JSON.stringify({ ...rules, headers: { [headerName]: 1 } })
}
