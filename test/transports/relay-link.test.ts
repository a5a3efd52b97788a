import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectTo, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import type { Logger } from '../../src/log.ts'
import { LinkLog } from '../../src/transports/relay/link-log.ts'
import { aHello, ok, ScriptedHub } from '../support/scripted-hub.ts'
import { aParcel, never, openScene } from './relay-scene.ts'

const quick = { sweepEveryMs: 5, helloMsMax: 40, pingEveryMs: 10, silenceMsMax: 60 }

describe('a hello', () => {
  test('is answered with a welcome, and makes the link known', async (t) => {
    let now = 0
    // It goes on by itself whenever somebody looks.
    const clock = { wall: Date.now, steady: () => (now += 3), monotonic: () => now }
    const { connect, transport, relays, changes, endpoint } = await openScene(t, { clock })
    const relay = relays[0] ?? assert.fail()
    assert.equal(transport.linkOf(relay.id), null)
    const told: string[] = []
    transport.onServing((id) => told.push(id))
    assert.equal(transport.serves(endpoint), false)
    const hub = await connect({ routes: ['github', 'stripe'] })
    const [welcome] = hub.heard
    const silenceMsMax = 25_000
    assert.deepEqual(welcome, { kind: 'welcome', version: 1, software: 'posthorn/test', relay: 'home', silenceMsMax })
    assert.deepEqual(told, [endpoint.id])
    assert.equal(transport.serves(endpoint), true)
    await hub.settled()
    const { connectedAt, roundTripMs, ...link } = transport.linkOf(relay.id) ?? assert.fail()
    assert.ok(connectedAt > 0)
    assert.deepEqual(link, {
      software: 'scripted/1',
      protocol: 1,
      routes: ['github', 'stripe'],
      lastAckAt: null,
      outstanding: 0,
    })
    assert.ok(roundTripMs !== null && roundTripMs > 0 && roundTripMs < now, 'measured from the start')
    const session = 'session-1'
    assert.deepEqual(changes, [{ relay, session, connected: true, ending: null, why: null }])
    hub.ws.close(1001)
    await hub.closed
    const why = 'the hub closed it (1001)'
    assert.deepEqual(changes.at(-1), { relay, session, connected: false, ending: 'left', why })
    assert.equal(transport.linkOf(relay.id), null)
    assert.deepEqual(told, [endpoint.id, endpoint.id])
  })

  test('of a newer version is answered with our own', async (t) => {
    const { open, transport, relays } = await openScene(t)
    const hub = await open()
    hub.sayRaw(JSON.stringify({ ...aHello({ version: 7 }), resume: { from: 'x' } }))
    assert.equal((await hub.next('welcome')).version, 1)
    hub.sayRaw(JSON.stringify({ kind: 'news', of: 'version 7' }))
    await hub.settled()
    assert.equal(transport.linkOf(relays[0]?.id ?? '')?.protocol, 1, 'what is not known is passed over')
  })

  test('of a version that is spoken no more is refused with the reason', async (t) => {
    const { open, changes } = await openScene(t, { versionMin: 2 })
    const hub = await open()
    hub.say(aHello())
    assert.equal((await hub.next('error')).code, 'version')
    assert.equal((await hub.closed).code, 4426)
    assert.deepEqual(changes, [])
  })

  test('that does not come in time ends the connection', async (t) => {
    const { open } = await openScene(t, { timings: quick })
    const hub = await open()
    assert.equal((await hub.closed).code, 4408)
  })

  test('that dribbles in is none, and pings do not lengthen its time', async (t) => {
    const { open } = await openScene(t, { timings: quick })
    const slow = await open()
    const dribble = setInterval(() => {
      if (slow.ws.readyState !== slow.ws.OPEN) return
      slow.ws.send('{', { fin: false })
      slow.ws.ping()
    }, 5)
    t.after(() => clearInterval(dribble))
    assert.equal((await slow.closed).code, 4408)
  })

  test('comes once', async (t) => {
    const { connect } = await openScene(t)
    const hub = await connect()
    for (let i = 0; i < 100; i += 1) hub.say(aHello())
    assert.equal((await hub.next('error')).message, 'This cannot be understood: hello comes once.')
    assert.equal((await hub.closed).code, 4400)
  })
})

describe('a link ends', () => {
  const garbage: readonly (readonly [string, string | Uint8Array])[] = [
    ['no JSON', 'hello?'],
    ['no message', '42'],
    ['a field that is wrong', JSON.stringify({ kind: 'ack', delivery: 7 })],
    [
      'a report that only an edge can make',
      JSON.stringify({
        kind: 'ack',
        delivery: 'x',
        bornAt: 1,
        report: { kind: 'interrupted', message: '' },
        tookMs: 1,
      }),
    ],
    ['a binary message', new Uint8Array([0, 0, 0, 1])],
    ['a name that has no room in the reason of a close', ackWith('語'.repeat(200))],
    ['a name that has no end', ackWith('x'.repeat(99_999))],
  ]
  for (const [what, data] of garbage) {
    test(`at garbage: ${what}`, async (t) => {
      const { connect, transport, endpoint } = await openScene(t)
      const hub = await connect()
      const report = transport.deliver(aParcel(endpoint), never)
      await hub.next('deliver')
      hub.sayRaw(data)
      assert.equal((await hub.next('error')).code, 'malformed')
      assert.equal((await hub.closed).code, 4400)
      assert.match(JSON.stringify(await report), /LINK_LOST/)
    })
  }

  test('at anything that comes before the hello', async (t) => {
    const { open, changes } = await openScene(t)
    for (const message of [JSON.stringify({ kind: 'drain' }), JSON.stringify({ kind: 'news' })]) {
      const hub = await open()
      hub.sayRaw(message)
      assert.equal((await hub.closed).code, 4400)
    }
    assert.deepEqual(changes, [])
  })

  test('at a message that is too large, without keeping it', async (t) => {
    const { connect, open } = await openScene(t)
    const hub = await connect()
    hub.sayRaw(JSON.stringify({ kind: 'returned', deliveries: ['x'.repeat(300_000)] }))
    assert.equal((await hub.closed).code, 1009)
    const early = await open()
    early.sayRaw('x'.repeat(300_000))
    assert.equal((await early.closed).code, 1009)
  })

  test('when nothing was heard for too long, though the connection looks alive', async (t) => {
    const { connect, transport, endpoint, changes } = await openScene(t, { timings: quick })
    const hub = await connect({}, { autoPong: false })
    const report = transport.deliver(aParcel(endpoint), never)
    assert.match(JSON.stringify(await report), /LINK_LOST/)
    assert.equal(changes.at(-1)?.connected, false)
    await hub.closed
  })

  test('not while it is pinged and answers', async (t) => {
    const { connect, transport, relays } = await openScene(t, { timings: quick })
    const hub = await connect()
    for (let pings = 0; pings < 12; pings += 1) await once(hub.ws, 'ping')
    assert.notEqual(transport.linkOf(relays[0]?.id ?? ''), null)
  })

  test('not because we ourselves have slept', async (t) => {
    let now = 1_000
    const clock = { wall: Date.now, steady: () => now, monotonic: () => now }
    const { connect, transport, relays } = await openScene(t, { clock, timings: { sweepEveryMs: 5 } })
    const hub = await connect()
    now += 3_600_000
    await once(hub.ws, 'ping')
    await hub.settled()
    assert.notEqual(transport.linkOf(relays[0]?.id ?? ''), null)
  })

  test('at once when its relay is revoked, whether it has said hello or not', async (t) => {
    const { connect, open, transport, relays, changes, endpoint } = await openScene(t)
    const { id } = relays[0] ?? assert.fail()
    const hub = await connect()
    const report = transport.deliver(aParcel(endpoint), never)
    const frame = await hub.next('deliver')
    transport.revoke(id)
    assert.equal(transport.linkOf(id), null)
    assert.equal(transport.serves(endpoint), false)
    hub.ack(frame)
    assert.match(JSON.stringify(await report), /LINK_LOST/)
    assert.equal((await hub.next('error')).code, 'revoked')
    assert.equal((await hub.closed).code, 4401)
    assert.match(changes.at(-1)?.why ?? '', /revoked/)
    const early = await open()
    transport.revoke(id)
    assert.equal((await early.closed).code, 4401)
    transport.revoke('rly_unknown')
  })

  test('with what the hub said of it in the log', async (t) => {
    const { connect, logged } = await openScene(t)
    const hub = await connect()
    hub.say({ kind: 'error', code: 'disk_full', message: 'The memory cannot be written.' })
    await hub.settled()
    const told = logged.find(({ message }) => message === 'relay.error')
    assert.equal(told?.fields.error, 'The memory cannot be written.')
  })
})

test('a hub cannot flood the log with errors, on however many links', async (t) => {
  const { connect, logged } = await openScene(t)
  for (let links = 0; links < 3; links++) {
    const hub = await connect()
    for (let i = 0; i < 100; i++) hub.say({ kind: 'error', code: 'x', message: `error ${i}` })
    await hub.settled()
    hub.ws.close(1001)
    await hub.closed
  }
  assert.equal(logged.filter(({ message }) => message === 'relay.error').length, 1)
})

test('a hub that comes and goes is told once a second, with the number of the untold', async (t) => {
  const { relays } = await openScene(t)
  const relay = relays[0] ?? assert.fail()
  let now = 0
  const untold: unknown[] = []
  const write = (fields: Record<string, unknown>) => untold.push(fields.untold)
  const clock = { wall: () => now, steady: () => now, monotonic: () => now }
  const log = new LinkLog({ log: { info: write } as unknown as Logger, clock })
  for (now = 0; now <= 2_000; now += 100) log.change(relay, 'relay.connected', {})
  assert.deepEqual(untold, [0, 9, 9])
})

describe('two hubs with one identity', () => {
  test('the newest wins, the older is told why, and never do both get deliveries', async (t) => {
    const { connect, transport, endpoint, changes } = await openScene(t)
    const older = await connect({ session: 'one' })
    const report = transport.deliver(aParcel(endpoint, { deliveryId: 'dlv_1' }), never)
    const frame = await older.next('deliver')
    const newer = await connect({ session: 'two' })
    assert.equal((await older.next('error')).code, 'replaced')
    assert.equal((await older.closed).code, 4409)
    assert.match(JSON.stringify(await report), /LINK_LOST/)
    assert.deepEqual(
      changes.map(({ connected }) => connected),
      [true, false, true],
    )
    const again = transport.deliver(aParcel(endpoint, { deliveryId: 'dlv_1' }), never)
    newer.ack(await newer.next('deliver'))
    assert.deepEqual(await again, ok)
    assert.equal(older.heard.filter(({ kind }) => kind === 'deliver').length, 1)
    assert.equal(frame.head.delivery, 'dlv_1')
  })

  test('what the older says after it was replaced counts no more', async (t) => {
    const { connect, transport, endpoint } = await openScene(t)
    const older = await connect({ session: 'one' })
    const report = transport.deliver(aParcel(endpoint), never)
    const frame = await older.next('deliver')
    const newer = await connect({ session: 'two' })
    older.ack(frame)
    await older.closed
    assert.match(JSON.stringify(await report), /LINK_LOST/)
    await newer.settled()
    assert.equal(transport.serves(endpoint), true)
  })

  test('one that does not say hello pushes nobody out', async (t) => {
    const { connect, open, transport, endpoint } = await openScene(t)
    const hub = await connect()
    const first = await open()
    const second = await open()
    assert.equal((await first.closed).code, 4409, 'of those that say nothing the newest is kept')
    const report = transport.deliver(aParcel(endpoint), never)
    hub.ack(await hub.next('deliver'))
    assert.deepEqual(await report, ok)
    assert.equal(second.ws.readyState, second.ws.OPEN)
  })

  test('the same hub that comes back is not told to stay away', async (t) => {
    const { connect, transport, endpoint } = await openScene(t)
    const before = await connect({ session: 'one' })
    await connect({ session: 'one' })
    assert.equal((await before.closed).code, 1006)
    assert.equal(
      before.heard.some(({ kind }) => kind === 'error'),
      false,
    )
    assert.equal(transport.serves(endpoint), true)
  })

  test('a flood of connections leaves one link and one that waits', async (t) => {
    const { url, transport, relays, endpoint } = await openScene(t)
    const hubs = Array.from({ length: 60 }, () => new ScriptedHub(url))
    t.after(() => {
      for (const hub of hubs) hub.ws.terminate()
    })
    await Promise.all(hubs.map((hub) => once(hub.ws, 'open')))
    for (const [index, hub] of hubs.entries()) {
      if (hub.ws.readyState === hub.ws.OPEN) hub.say(aHello({ session: `s${index}` }))
    }
    const ends = await Promise.all(hubs.slice(0, -1).map((hub) => hub.closed))
    assert.deepEqual(new Set(ends.map(({ code }) => code)), new Set([4409]))
    assert.notEqual(transport.linkOf(relays[0]?.id ?? ''), null)
    assert.equal(transport.serves(endpoint), true)
  })
})

describe('compression', () => {
  test('is used when the hub asks for it, and bodies arrive as they are', async (t) => {
    const { connect, transport, endpoint } = await openScene(t)
    const plain = await connect()
    assert.equal(plain.ws.extensions, '')
    const hub = await connect({ session: 'two' }, { perMessageDeflate: true })
    assert.match(hub.ws.extensions, /permessage-deflate/)
    const body = Buffer.from('x'.repeat(50_000))
    const parcel = aParcel(endpoint)
    const report = transport.deliver({ ...parcel, event: { ...parcel.event, body } }, never)
    const frame = await hub.next('deliver')
    assert.equal(Buffer.from(frame.body).equals(body), true)
    hub.ack(frame, { ...ok, body: 'y'.repeat(5_000) })
    assert.equal((await report).kind, 'answered')
  })

  test('goes on for large bodies, however many there have been', async (t) => {
    const { connect, transport, endpoint } = await openScene(t)
    let socket: Socket | undefined
    const hub = await connect(
      { frameBytesMax: 4_000_000 },
      {
        perMessageDeflate: true,
        createConnection: ({ host, port }: { host: string; port: number }) => {
          socket = connectTo({ host, port })
          return socket
        },
      },
    )
    const body = Buffer.from('x'.repeat(2_000_000))
    for (let n = 0; n < 20; n++) {
      const parcel = aParcel(endpoint, { deliveryId: `dlv_${n}` })
      const report = transport.deliver({ ...parcel, event: { ...parcel.event, body } }, never)
      const frame = await hub.next('deliver')
      assert.equal(Buffer.from(frame.body).equals(body), true)
      hub.ack(frame)
      await report
    }
    const bytesRead = socket?.bytesRead ?? 0
    assert.ok(bytesRead > 0 && bytesRead < body.length, `${bytesRead} bytes for 20 bodies`)
  })

  test('does not let more in than without it', async (t) => {
    const { connect } = await openScene(t)
    const hub = await connect({}, { perMessageDeflate: { threshold: 0 } })
    hub.sayRaw(' '.repeat(10_000_000))
    assert.equal((await hub.closed).code, 1009)
  })
})

describe('when the edge stops', () => {
  test('hubs are told, what they have is waited for, then they are asked to come back', async (t) => {
    const { connect, transport, endpoint, url } = await openScene(t)
    const hub = await connect()
    const report = transport.deliver(aParcel(endpoint), never)
    const frame = await hub.next('deliver')
    const closing = transport.close()
    await hub.next('drain')
    assert.equal(transport.serves(endpoint), false)
    assert.equal((await transport.deliver(aParcel(endpoint), never)).kind, 'interrupted')
    const late = new ScriptedHub(url)
    await late.closed
    assert.equal(hub.ws.readyState, hub.ws.OPEN)
    hub.ack(frame)
    assert.deepEqual(await report, ok)
    assert.equal((await hub.closed).code, 1012)
    await closing
    await transport.close()
  })

  test('a hub that does not answer our closing is cut off', async (t) => {
    const { url, transport } = await openScene(t, { timings: { closeMsMax: 20 } })
    const { port } = new URL(url)
    const socket = connectTo(Number(port), '127.0.0.1')
    const key = Buffer.alloc(16).toString('base64')
    socket.write(
      `GET /0 HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
    )
    await once(socket, 'data')
    const ended = once(socket, 'close')
    await transport.close()
    await ended
  })
})

/** All of it is right but one header. */
function ackWith(headerName: string): string {
  const report = { kind: 'answered', statusCode: 200, headers: { [headerName]: 1 }, body: '' }
  return JSON.stringify({ kind: 'ack', delivery: 'x', bornAt: 1, report, tookMs: 1 })
}
