import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { test } from 'node:test'
import { backoffMs } from '../../src/hub/backoff.ts'
import { closeCodes } from '../../src/transports/relay/protocol.ts'
import { makeCertificate } from '../support/certificates.ts'
import { openScriptedEdge } from '../support/scripted-edge.ts'
import { HubScene, routeTo } from './hub-scene.ts'

test('refuses what is no address of an edge, no route and no key, all in one go', async (t) => {
  const routes = new Map([['Bad Name', 'ftp://x']])
  const opening = new HubScene(t).openHub({ edge: 'ftp://x', key: 'a b', routes, proxy: 'socks5://x' })
  await assert.rejects(opening, (error: Error) => {
    const found = ['edge', 'key', '"Bad Name"', 'Bad Name must lead', 'proxy'].map((part) =>
      error.message.includes(part),
    )
    assert.deepEqual(found, [true, true, true, true, true], error.message)
    return true
  })
})

test('shows its key and nothing else, at the path of the relay', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const hub = await scene.hub({ edge: edge.url.replace('ws:', 'http:'), key: 'phr_secret' })
  const { upgrade } = await edge.link()
  assert.deepEqual([upgrade.url, upgrade.headers.authorization], ['/v1/relay', 'Bearer phr_secret'])
  const { relay, software } = await hub.event('connected')
  assert.deepEqual([relay, software], ['home', 'edge/test'])
})

test('keeps trying an edge that is not there, tells so, and is there when it comes', async (t) => {
  const scene = new HubScene(t)
  const gone = await openScriptedEdge()
  await gone.close()
  const hub = await scene.hub({ edge: gone.url })
  for (const _ of ['first', 'second']) {
    const { message, retryInMs } = await hub.event('disconnected')
    assert.match(message, /cannot be reached: the connection was refused \(ECONNREFUSED\)/)
    assert.ok(retryInMs !== null && retryInMs <= 30)
  }
  const edge = await scene.edge({ port: gone.port })
  await edge.link()
  await hub.event('connected')
})

test('ends with what to do when its key is not good, at the start or later', async (t) => {
  for (const isLater of [false, true]) {
    const scene = new HubScene(t)
    const edge = await scene.edge()
    if (!isLater) edge.refuse(401)
    const hub = await scene.hub({ edge: edge.url })
    if (isLater) {
      const link = await edge.link()
      edge.refuse(401)
      link.ws.terminate()
    }
    const end = await hub.ended
    assert.equal(end.kind, 'refused')
    assert.match(
      end.kind === 'refused' ? end.message : '',
      /does not know this key.*put the new key in place.*posthorn relays create/,
    )
    assert.equal(edge.visits(), isLater ? 2 : 1)
    assert.deepEqual(hub.events.at(-1)?.kind === 'disconnected' && hub.events.at(-1), {
      kind: 'disconnected',
      message: end.kind === 'refused' ? end.message : '',
      retryInMs: null,
    })
  }
})

const finals = [
  [closeCodes.revoked, 'revoked', /revoked or replaced by a new one: put the new key in place.*relays rotate-key/],
  [closeCodes.replaced, 'replaced', /newest wins.*stop one of the two/],
  [closeCodes.version, 'version', /no version in common.*update/],
] as const
for (const [code, kind, words] of finals) {
  test(`stays away after ${code}, and says why`, async (t) => {
    const scene = new HubScene(t)
    const edge = await scene.edge()
    const hub = await scene.hub({ edge: edge.url })
    const link = await edge.link()
    link.send({ kind: 'error', code: 'x', message: 'gone for good' })
    link.ws.close(code, 'why')
    const end = await hub.ended
    assert.equal(end.kind, kind)
    assert.match('message' in end ? end.message : '', words)
    assert.equal(edge.visits(), 1)
  })
}

test('comes back after every other end of a link, and every other answer', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const hub = await scene.hub({ edge: edge.url })
  for (const code of [1000, 1001, 1011, 1012, 4400, 4408, 4999]) {
    ;(await edge.link()).ws.close(code, 'why')
    const { message, retryInMs } = await hub.event('disconnected')
    assert.match(message, new RegExp(`${code} \\(why\\)`))
    assert.notEqual(retryInMs, null)
  }
  const link = await edge.link()
  for (const status of [400, 403, 404, 301, 429, 500, 502, 503]) {
    edge.refuse(status)
    link.ws.terminate()
    let told = ''
    while (!told.includes(`answered ${status}`)) told = (await hub.event('disconnected')).message
  }
  edge.refuse(null)
  await edge.link()
})

test('waits longer from time to time, up to a limit, never as long as another, and begins anew after a good link', async (t) => {
  const settings = { backoffMsMin: 500, backoffMsMax: 30_000 }
  const middle = [0, 1, 2, 3, 4, 5, 6, 7, 2_000].map((failures) => backoffMs(failures, settings, 0.5))
  assert.deepEqual(middle, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
  assert.deepEqual([backoffMs(0, settings, 0), backoffMs(9, settings, 0.999_999)], [250, 45_000])

  const waits = async (goodLinkMs: number): Promise<readonly number[]> => {
    const scene = new HubScene(t)
    const edge = await scene.edge()
    const hub = await scene.hub({ edge: edge.url, timing: { backoffMsMin: 2, backoffMsMax: 1_000, goodLinkMs } })
    const found: number[] = []
    for (let n = 0; n < 5; n++) {
      const link = await edge.link()
      await hub.event('connected')
      link.ws.terminate()
      found.push((await hub.event('disconnected')).retryInMs ?? -1)
    }
    return found
  }
  assert.ok((await waits(60_000))[4]! >= 16)
  assert.ok((await waits(0)).every((ms) => ms <= 3))
})

test('takes a link on which nothing comes for dead, and comes back', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const hub = await scene.hub({ edge: edge.url, timing: { beatMs: 10, silenceMsMax: 150 } })
  const link = await edge.link()
  // Half-open: the other side neither reads nor answers, and the network says nothing.
  link.socket.pause()
  assert.match((await hub.event('disconnected')).message, /Nothing was heard/)
  await edge.link()
  await hub.event('connected')
})

test('does not take a link for dead on which there is only a pong now and then', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const hub = await scene.hub({ edge: edge.url, timing: { beatMs: 10, silenceMsMax: 400 } })
  const link = await edge.link()
  for (let n = 0; n < 25; n++) await once(link.ws, 'ping')
  assert.deepEqual([edge.visits(), hub.events.length], [1, 1])
})

test('gives up on who takes the connection and never says a word', async (t) => {
  const mute = net.createServer(() => undefined).listen(0, '127.0.0.1')
  await once(mute, 'listening')
  const sockets: net.Socket[] = []
  mute.on('connection', (socket) => sockets.push(socket))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    mute.close()
  })
  const scene = new HubScene(t)
  const { port } = mute.address() as net.AddressInfo
  for (const scheme of ['ws', 'wss']) {
    const hub = await scene.hub({ edge: `${scheme}://127.0.0.1:${port}`, timing: { connectMsMax: 100 } })
    assert.match((await hub.event('disconnected')).message, /cannot be reached/)
    await hub.stop()
  }
  const edge = await scene.edge({ welcome: null })
  const hub = await scene.hub({ edge: edge.url, timing: { connectMsMax: 100 } })
  const link = await edge.link()
  assert.equal((await link.closed).code, closeCodes.protocol)
  assert.match((await hub.event('disconnected')).message, /did not answer the hello/)
})

const authority = makeCertificate({ name: 'test authority', isAuthority: true })
const certificate = makeCertificate({ name: 'edge', hosts: ['127.0.0.1'], issuer: authority })

test('speaks TLS to an edge whose authority it was told to trust, also compressed', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge({ certificate, compress: true })
  const target = await scene.target()
  await scene.hub({ edge: edge.url, ca: authority.cert, compress: true, routes: routeTo(target) })
  const link = await edge.link()
  assert.ok(link.ws.extensions.includes('permessage-deflate'))
  link.describe()
  link.deliver({ delivery: 'dlv_1', body: 'x'.repeat(100_000) })
  assert.equal((await target.next()).body.length, 100_000)
  assert.equal((await link.ack()).delivery, 'dlv_1')
})

test('shows no key to an edge that it cannot verify: unknown, or for another name', async (t) => {
  const scene = new HubScene(t)
  const elsewhere = makeCertificate({ name: 'other', hosts: ['127.0.0.2'], issuer: authority })
  const unknown = await scene.edge({ certificate })
  const misnamed = await scene.edge({ certificate: elsewhere })
  const first = await scene.hub({ edge: unknown.url })
  assert.match((await first.event('disconnected')).message, /certificate/)
  const second = await scene.hub({ edge: misnamed.url, ca: authority.cert })
  assert.match((await second.event('disconnected')).message, /certificate is for another host name/)
  assert.deepEqual([unknown.visits(), misnamed.visits()], [0, 0])
})
