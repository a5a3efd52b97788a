import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, describe, test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { Notices } from '../../src/notices.ts'
import { MemoryBus } from '../../src/shared-state/memory-bus.ts'
import { NoticeExchange } from '../../src/shared-state/notice-exchange.ts'
import { t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, openServedParts, type Served } from './served.ts'

const admin = { authorization: 'Bearer the-key-of-the-configuration' }

/** Listens, and answers what came so far and a way to wait for more. */
async function listen(url: string, query = '', headers: Record<string, string> = admin) {
  const stop = new AbortController()
  const response = await fetch(`${url}/v1/stream${query}`, { headers, signal: stop.signal })
  const heard: Json[] = []
  let more = Promise.withResolvers<void>()
  const read = async () => {
    let text = ''
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1]
        if (data !== undefined) heard.push(JSON.parse(data))
      }
      more.resolve()
      more = Promise.withResolvers()
    }
  }
  const ended = read().then(
    () => 'ended' as const,
    () => 'cut' as const,
  )
  const until = async (found: (heard: Json[]) => boolean) => {
    while (!found(heard)) await more.promise
  }
  return { response, heard, until, ended, stop: () => stop.abort() }
}

describe('the stream', () => {
  let served: Served
  before(async () => {
    served = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration' })
  })
  after(() => served.stop())

  test('tells of events and attempts while they happen, by type, endpoint and kind', async () => {
    const endpoint = await openScriptedEndpoint()
    const made = await served.call('POST', '/v1/endpoints', { url: endpoint.url, types: ['order.*'] }, admin)
    const all = await listen(served.url)
    const orders = await listen(served.url, '?type=order.*,nothing&kinds=event.accepted')
    const tries = await listen(served.url, `?endpoint=${made.json.id}`)
    assert.equal(all.response.headers.get('content-type'), 'text/event-stream')
    await served.call('POST', '/v1/events', { type: 'other', data: 1 }, admin)
    const sent = await served.call('POST', '/v1/events', { type: 'order.created', data: 1 }, admin)
    const isSettled = (heard: Json[]) => heard.some(({ kind }) => kind === 'attempt.settled')
    await Promise.all([all.until(isSettled), tries.until(isSettled), orders.until((heard) => heard.length > 0)])
    assert.deepEqual(
      all.heard.map(({ kind, type }) => [kind, type]),
      [
        ['event.accepted', 'other'],
        ['event.accepted', 'order.created'],
        ['attempt.settled', 'order.created'],
      ],
    )
    const { at, ...accepted } = orders.heard[0]
    assert.deepEqual(accepted, {
      ...{ kind: 'event.accepted', tenant: 'default', eventId: sent.json.id, type: 'order.created', deliveries: 1 },
    })
    assert.equal(orders.heard.length, 1)
    assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000, at)
    assert.ok(all.heard.every((notice) => new Date(notice.at).toISOString() === notice.at))
    assert.deepEqual(
      tries.heard.map(({ kind, status, endpointId }) => [kind, status, endpointId]),
      [['attempt.settled', 'delivered', made.json.id]],
    )
    assert.match(tries.heard[0].startedAt, /^\d{4}-\d\d-\d\dT/)
    for (const listener of [all, orders, tries]) listener.stop()
    await endpoint.close()
  })

  test('refuses a filter that makes no sense', async () => {
    for (const query of ['?kinds=all', '?type=a..b', '?endpoint=dlv_1', '?nothing=1']) {
      const reply = await served.call('GET', `/v1/stream${query}`, undefined, admin)
      assert.equal(reply.status, 422, query)
    }
  })

  test('tells a tenant of nothing but its own, and ends when the key is deleted', async () => {
    const made = await served.call('POST', '/v1/keys', { role: 'read', tenant: 'acme' }, admin)
    const listener = await listen(served.url, '', { authorization: `Bearer ${made.json.key}` })
    const event = { type: 'a', data: 1 }
    await served.call('POST', '/v1/events', event, admin)
    await served.call('POST', '/v1/events', { ...event, tenant: 'globex' }, admin)
    await served.call('POST', '/v1/events', { ...event, tenant: 'acme' }, admin)
    await listener.until((heard) => heard.length > 0)
    await served.call('DELETE', `/v1/keys/${made.json.id}`, undefined, admin)
    assert.equal(await listener.ended, 'cut')
    assert.deepEqual(
      listener.heard.map(({ tenant }) => tenant),
      ['acme'],
    )
  })
})

const aNotice: Notice = {
  kind: 'event.accepted',
  tenant: 'default',
  eventId: `evt_${'x'.repeat(1_000)}`,
  type: 'a',
  deliveries: 0,
}

test('a reader whose key is deleted while it does not read is let go, and what happens next harms nobody', async () => {
  let notices: Notices | null = null
  const served = await openServedParts((parts) => {
    notices = parts.notices
    return {}
  })
  try {
    const made = await served.call('POST', '/v1/keys', { role: 'read' })
    const { port, host } = new URL(served.url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`GET /v1/stream HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${made.json.key}\r\n\r\n`)
    await once(socket, 'data')
    socket.pause()
    for (let i = 0; i < 50_000; i++) (notices as Notices | null)?.publish(aNotice)
    await served.call('DELETE', `/v1/keys/${made.json.id}`)
    for (let i = 0; i < 10; i++) (notices as Notices | null)?.publish(aNotice)
    socket.resume()
    await once(socket, 'close')
    assert.equal((await served.call('GET', '/healthz')).status, 200)
  } finally {
    await served.stop()
  }
})

test('a reader that does not read costs a bounded part of memory and is told how much it missed', async () => {
  let notices: Notices | null = null
  const served = await openServedParts((parts) => {
    notices = parts.notices
    return {}
  })
  try {
    const { port, host } = new URL(served.url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`GET /v1/stream HTTP/1.1\r\nhost: ${host}\r\n\r\n`)
    await once(socket, 'data')
    socket.pause()
    const publish = (count: number) => {
      for (let i = 0; i < count; i++) (notices as Notices | null)?.publish(aNotice)
    }
    // Far more than the connection and the server's own limit hold together.
    publish(50_000)
    let heard = 0
    let dropped = 0
    let text = ''
    const done = Promise.withResolvers<void>()
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      const lines = text.split('\n')
      text = lines.pop() ?? ''
      for (const line of lines) {
        if (line.startsWith('event: event.accepted')) heard += 1
        const told = /"dropped":(\d+)/.exec(line)?.[1]
        if (told !== undefined) dropped += Number(told)
      }
      if (dropped > 0) done.resolve()
    })
    socket.resume()
    await done.promise
    assert.ok(heard * 1_000 < 10_000_000, `${heard} waited in memory`)
    assert.equal(heard + dropped, 50_000)
    socket.destroy()
  } finally {
    await served.stop()
  }
})

/** A server, and beside it the notices of another process. */
async function openWithAnother() {
  const group = new Set<MemoryBus>()
  const onDefect = (error: unknown) => assert.fail(String(error))
  const steady = () => performance.now()
  const clock = { wall: () => t0, steady, monotonic: steady }
  const exchange = (notices: Notices) =>
    new NoticeExchange({ bus: new MemoryBus(group), notices, clock, onSent: () => {} })
  const exchanges: NoticeExchange[] = []
  const served = await openServedParts(({ notices }) => {
    const elsewhere = exchange(notices)
    exchanges.push(elsewhere)
    return { elsewhere }
  })
  const notices = new Notices(onDefect)
  exchanges.push(exchange(notices))
  const another = new MemoryBus(group)
  const isWatched = (isSo: boolean) =>
    eventually(`it is watched: ${isSo}`, async () => (notices.heard === isSo ? true : null))
  const stop = async () => {
    for (const each of exchanges) await each.close()
    await served.stop()
  }
  return { served, notices, isWatched, another, stop }
}

test('what happens in another process is shown with its own time, to those whose tenant and filter it fits', async () => {
  const { served, notices, isWatched, stop } = await openWithAnother()
  try {
    const made = await served.call('POST', '/v1/keys', { role: 'read', tenant: 'acme' })
    const all = await listen(served.url, '', {})
    const acme = await listen(served.url, '', { authorization: `Bearer ${made.json.key}` })
    const orders = await listen(served.url, '?type=order.*', {})
    await isWatched(true)
    for (const tenant of ['globex', 'acme']) notices.publish({ ...aNotice, eventId: `evt_${tenant}`, tenant })
    notices.publish({ ...aNotice, type: 'order.created', eventId: 'evt_last', tenant: 'acme' })
    const isOver = (heard: Json[]) => heard.some(({ eventId }) => eventId === 'evt_last')
    await Promise.all([all, acme, orders].map(({ until }) => until(isOver)))
    const idsOf = ({ heard }: Readonly<{ heard: Json[] }>) => heard.map(({ eventId }) => eventId)
    assert.deepEqual(idsOf(all), ['evt_globex', 'evt_acme', 'evt_last'])
    assert.deepEqual(idsOf(acme), ['evt_acme', 'evt_last'])
    assert.deepEqual(idsOf(orders), ['evt_last'])
    assert.equal(all.heard[0].at, new Date(t0).toISOString())
    const metrics = await served.call('GET', '/metrics')
    assert.match(metrics.text, /^posthorn_events_accepted_total 0$/m, 'it is counted where it happened')
    for (const listener of [all, acme, orders]) listener.stop()
    await isWatched(false)
  } finally {
    await stop()
  }
})

test('what another process could not send is told to those who see its tenant', async () => {
  const { served, isWatched, another, stop } = await openWithAnother()
  try {
    const keyOf = async (tenant: string) =>
      (await served.call('POST', '/v1/keys', { role: 'read', tenant })).json.key as string
    const open = async (tenant: string) => listen(served.url, '', { authorization: `Bearer ${await keyOf(tenant)}` })
    const [all, acme, globex] = [await listen(served.url, '', {}), await open('acme'), await open('globex')]
    await isWatched(true)
    const items = [
      { tenant: 'acme', dropped: 3 },
      { tenant: null, dropped: 4 },
      { at: t0, notice: { ...aNotice, tenant: 'acme' } },
      { at: t0, notice: { ...aNotice, tenant: 'globex' } },
    ]
    await another.publish([JSON.stringify({ kind: 'happened', from: 'x', items })])
    const hasEvent = (heard: Json[]) => heard.some(({ kind }) => kind === 'event.accepted')
    await Promise.all([all, acme, globex].map(({ until }) => until(hasEvent)))
    const droppedOf = ({ heard }: Readonly<{ heard: Json[] }>) => heard.flatMap(({ dropped }) => dropped ?? [])
    assert.deepEqual([all, acme, globex].map(droppedOf), [[3, 4], [3], []])
    for (const listener of [all, acme, globex]) listener.stop()
  } finally {
    await stop()
  }
})

test('a server that stops ends its streams at once', async () => {
  const served = await openServed()
  const listener = await listen(served.url, '', {})
  await served.stop()
  assert.equal(await listener.ended, 'ended')
})
