import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import { type TestContext, test } from 'node:test'
import { type Certificate, makeCertificate } from '../support/certificates.ts'
import { HubScene, routeTo } from './hub-scene.ts'

type Asked = Readonly<{ target: string; authorization: string | undefined }>

/** A proxy that lets CONNECT through, or answers with this status. */
async function openProxy(t: TestContext, more: { status?: number; certificate?: Certificate } = {}) {
  const { status = 200, certificate } = more
  const asked: Asked[] = []
  const sockets = new Set<net.Socket>()
  const proxy = certificate === undefined ? http.createServer() : https.createServer(certificate)
  proxy.on('connect', (request: http.IncomingMessage, client: net.Socket, head: Buffer) => {
    asked.push({ target: request.url ?? '', authorization: request.headers['proxy-authorization'] })
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\n\r\n`)
      return
    }
    const [, host = '', port] = /^(.*):(\d+)$/.exec(request.url ?? '') ?? []
    const upstream = net.connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection established\r\n\r\n')
      upstream.write(head)
      upstream.pipe(client).pipe(upstream)
    })
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
    }
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    proxy.closeAllConnections()
    proxy.close()
  })
  const { port } = proxy.address() as net.AddressInfo
  return { asked, host: `127.0.0.1:${port}` }
}

const authority = makeCertificate({ name: 'test authority', isAuthority: true })
const certificate = makeCertificate({ name: 'edge', hosts: ['127.0.0.1'], issuer: authority })

for (const isSecure of [false, true]) {
  test(`goes through a proxy to an edge that is ${isSecure ? '' : 'not '}encrypted, and tells it who it is`, async (t) => {
    const scene = new HubScene(t)
    const edge = await scene.edge(isSecure ? { certificate } : {})
    const target = await scene.target()
    const { asked, host } = await openProxy(t)
    const proxy = `http://me:p%40ss@${host}`
    await scene.hub({ edge: edge.url, proxy, ca: authority.cert, routes: routeTo(target) })
    const link = await edge.link()
    link.describe()
    link.deliver({ delivery: 'dlv_1' })
    assert.equal((await link.ack()).delivery, 'dlv_1')
    const authorization = `Basic ${Buffer.from('me:p@ss').toString('base64')}`
    assert.deepEqual(asked, [{ target: `127.0.0.1:${edge.port}`, authorization }])
  })
}

test('sends a password with a percent sign that nobody has encoded', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const { asked, host } = await openProxy(t)
  await scene.hub({ edge: edge.url, proxy: `http://me:100%@${host}` })
  await edge.link()
  assert.equal(asked[0]?.authorization, `Basic ${Buffer.from('me:100%').toString('base64')}`)
})

test('goes through a proxy that is encrypted itself, and tells nothing to one that it cannot verify', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const { asked, host } = await openProxy(t, { certificate })
  const wary = await scene.hub({ edge: edge.url, proxy: `https://${host}` })
  assert.match((await wary.event('disconnected')).message, /proxy .* cannot be reached/)
  assert.equal(asked.length, 0)
  await wary.stop()
  await scene.hub({ edge: edge.url, proxy: `https://${host}`, ca: authority.cert })
  await edge.link()
  assert.deepEqual(asked, [{ target: `127.0.0.1:${edge.port}`, authorization: undefined }])
})

test('verifies the edge behind the proxy, and shows it no key before', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge({ certificate })
  const { host } = await openProxy(t)
  const hub = await scene.hub({ edge: edge.url, proxy: `http://${host}` })
  assert.match((await hub.event('disconnected')).message, /certificate/)
  assert.equal(edge.visits(), 0)
})

test('says what to do about a proxy that does not let it through, without its password, and tries again', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const unwilling = await openProxy(t, { status: 407 })
  const strict = await openProxy(t, { status: 403 })
  const messages: string[] = []
  for (const host of [unwilling.host, strict.host, '127.0.0.1:1']) {
    const hub = await scene.hub({ edge: edge.url, proxy: `http://me:secret@${host}` })
    const { message, retryInMs } = await hub.event('disconnected')
    assert.ok(retryInMs !== null && !message.includes('secret'))
    messages.push(message)
    await hub.event('disconnected')
    await hub.stop()
  }
  assert.match(messages[0]!, /answered 407: it wants a user and a password/)
  assert.match(messages[1]!, /answered 403: .*NO_PROXY/)
  assert.match(messages[2]!, /cannot be reached \(ECONNREFUSED\).*NO_PROXY/)
  assert.equal(edge.visits(), 0)
})
