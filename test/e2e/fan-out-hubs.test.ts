import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { encode, readDeliver, readToHub } from '../../src/transports/relay/protocol.ts'
import { aHello, ok } from '../support/scripted-hub.ts'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'
import { openWatch, type Watch } from '../support/watch.ts'
import { addEndpoints, bodyHash, checkPeak, env, send } from '../support/wide-event.ts'

const hubs = 500
/** How many read at the same time: a body is 1 MB in each of them. */
const readersMax = 50
/** Node itself, its heap, the bound, and connections. One copy per hub would be hundreds more. */
const rssMbMax = 350

test('500 hubs that do not read hold no compressed copy of a large event each', { timeout: 240_000 }, async (t) => {
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const server = await startServer({ database: join(folder.path, 'posthorn.db'), env })
  const watch = openWatch()
  const crowd: Hub[] = []
  try {
    for (let n = 0; n < hubs; n++) crowd.push(await openHub(server, { name: `hub-${n}`, watch }))
    const rules = { kind: 'relay', route: 'all', types: ['*'], timeout: '5m', ordering: 'none' }
    await addEndpoints(
      server,
      crowd.map(({ name }) => ({ ...rules, relay: name })),
    )
    await send(server)
    await watch.until(() => crowd.every((hub) => hub.state !== 'waiting'))
    checkPeak(t, server.child, rssMbMax)
    for (let n = 0; n < hubs; n += readersMax) {
      const readers = crowd.slice(n, n + readersMax)
      for (const reader of readers) reader.ws.resume()
      await watch.until(() => readers.every((hub) => hub.state !== 'unread'))
    }
    assert.deepEqual(new Set(crowd.map(({ state }) => state)), new Set(['right']))
    checkPeak(t, server.child, rssMbMax)
  } finally {
    for (const { ws } of crowd) ws.terminate()
    assert.equal(await server.stop(), 0)
  }
})

type Hub = {
  readonly name: string
  readonly ws: WebSocket
  /** `unread`: the rules of its endpoint came, behind which the delivery is, and it reads nothing more. */
  state: 'waiting' | 'unread' | 'right' | 'wrong'
}

async function openHub(
  { url }: ServerProcess,
  { name, watch }: Readonly<{ name: string; watch: Watch }>,
): Promise<Hub> {
  const headers = { 'content-type': 'application/json' }
  const made = await fetch(`${url}/v1/relays`, { method: 'POST', headers, body: JSON.stringify({ name }) })
  const { key } = (await made.json()) as { key: string }
  const ws = new WebSocket(`${url.replace('http', 'ws')}/v1/relay`, {
    headers: { authorization: `Bearer ${key}` },
    perMessageDeflate: true,
  })
  await once(ws, 'open')
  const hub: Hub = { name, ws, state: 'waiting' }
  ws.on('message', (data: Buffer, isBinary) => {
    if (isBinary) takeDelivery(hub, data)
    else if (readToHub(data.toString()).kind === 'endpoint') {
      hub.state = 'unread'
      ws.pause()
    }
    watch.look()
  })
  const welcomed = once(ws, 'message')
  ws.send(encode(aHello({ session: name, routes: ['all'], frameBytesMax: 2_000_000 })))
  await welcomed
  return hub
}

function takeDelivery(hub: Hub, data: Buffer): void {
  const deliver = readDeliver(data)
  if ('kind' in deliver) {
    hub.state = 'wrong'
    return
  }
  const { delivery, bornAt } = deliver.head
  hub.state = createHash('sha256').update(deliver.body).digest('hex') === bodyHash ? 'right' : 'wrong'
  hub.ws.send(encode({ kind: 'ack', delivery, bornAt, report: ok, tookMs: 1 }))
}
