import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Certificate, makeCertificate } from '../support/certificates.ts'
import { startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'
import { openWatch, type Watch } from '../support/watch.ts'
import { addEndpoints, body, bodyHash, checkPeak, env, send } from '../support/wide-event.ts'

const endpoints = 1_000
/** Node itself, its heap, the bound, and connections. One copy per delivery would be a gigabyte. */
const rssMbMax = 450
/** 1,000 connections with TLS take more by themselves, and each has a piece of the body. */
const secureRssMbMax = 650

test('one large event to 1,000 endpoints is in memory once: fresh, and after a kill with all of it pending', {
  timeout: 240_000,
}, async (t) => {
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const database = join(folder.path, 'posthorn.db')
  const receiver = await openReceiver(t)
  const paused = await startServer({ database, env: { ...env, POSTHORN_PAUSED: 'yes' } })
  await addEndpoints(paused, endpointsAt(receiver.url))
  await send(paused)
  await paused.kill()

  const server = await startServer({ database, env })
  try {
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
    await receiver.watch.until(() => receiver.held.length === endpoints)
    assert.equal(receiver.wrong, 0)
    assert.equal(receiver.paths.size, endpoints)
    receiver.answerAll()
    await send(server)
    await receiver.watch.until(() => receiver.held.length === endpoints)
    receiver.answerAll()
    checkPeak(t, server.child, rssMbMax)
  } finally {
    assert.equal(await server.stop(), 0)
  }
})

test('1,000 endpoints behind TLS that do not read hold no copy of a large event each', {
  timeout: 240_000,
}, async (t) => {
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
  const trusted = join(folder.path, 'authority.pem')
  await writeFile(trusted, authority.cert)
  const certificate = makeCertificate({ name: 'receiver', hosts: ['127.0.0.1'], issuer: authority })
  const receiver = await openReceiver(t, { certificate, isReading: false })
  const database = join(folder.path, 'posthorn.db')
  const server = await startServer({ database, env: { ...env, NODE_EXTRA_CA_CERTS: trusted } })
  try {
    await addEndpoints(server, endpointsAt(receiver.url))
    await send(server)
    await receiver.watch.until(() => receiver.unread.length === endpoints)
    checkPeak(t, server.child, secureRssMbMax)
    receiver.read()
    await receiver.watch.until(() => receiver.held.length === endpoints)
    assert.equal(receiver.wrong, 0)
    assert.equal(receiver.paths.size, endpoints)
    receiver.answerAll()
    checkPeak(t, server.child, secureRssMbMax)
  } finally {
    assert.equal(await server.stop(), 0)
  }
})

type Receiver = Readonly<{
  url: string
  watch: Watch
  /** Requests of which only the head was read. */
  unread: IncomingMessage[]
  /** Requests that have come in whole and got no answer yet. */
  held: ServerResponse[]
  paths: Set<string>
  /** Bodies that are not what was sent. */
  readonly wrong: number
  read(): void
  answerAll(): void
}>

/** Takes every request and answers none before it is told to: whatever the sender keeps for them, it keeps for all. */
async function openReceiver(
  t: TestContext,
  { certificate, isReading = true }: Readonly<{ certificate?: Certificate; isReading?: boolean }> = {},
): Promise<Receiver> {
  const watch = openWatch()
  const unread: IncomingMessage[] = []
  const held: ServerResponse[] = []
  const paths = new Set<string>()
  let wrong = 0
  const onRequest: http.RequestListener = (request, response) => {
    const hash = createHash('sha256')
    request.on('end', () => {
      if (hash.digest('hex') !== bodyHash || request.headers['content-length'] !== String(body.length)) wrong += 1
      paths.add(request.url ?? '')
      held.push(response)
      watch.look()
    })
    request.on('data', (chunk: Buffer) => hash.update(chunk))
    if (isReading) return
    request.pause()
    unread.push(request)
    watch.look()
  }
  const server = certificate === undefined ? http.createServer(onRequest) : https.createServer(certificate, onRequest)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    watch,
    unread,
    held,
    paths,
    get wrong() {
      return wrong
    },
    read() {
      for (const request of unread.splice(0)) request.resume()
    },
    answerAll() {
      for (const response of held.splice(0)) response.end()
    },
  }
}

function endpointsAt(url: string): readonly object[] {
  return Array.from({ length: endpoints }, (_, n) => ({
    kind: 'http',
    url: `${url}/${n}`,
    types: ['*'],
    timeout: '5m',
  }))
}
