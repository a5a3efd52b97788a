import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openMembers } from '../support/members.ts'
import { noPostgres, query } from '../support/postgres.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import type { ServerProcess } from '../support/server-process.ts'

const patienceMs = 20_000
/** A lease, a lease of beats before the first fencing, and the time to take over. */
const takeOverMs = 45_000

async function call<T = Record<string, unknown>>(
  { url }: ServerProcess,
  method: string,
  path: string,
  body?: unknown,
): Promise<T> {
  const init = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  const response = await fetch(`${url}${path}`, { method, ...init })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}

const send = (server: ServerProcess, n: number, key?: string) =>
  call<{ id: string; deliveries: number }>(server, 'POST', '/v1/events', {
    type: 'order.created',
    data: { n },
    ...(key !== undefined && { key }),
  })

/** Asks again and again, because what other processes do sends no signal here. */
async function eventually<T>(what: string, look: () => Promise<T | null>, waitMs = patienceMs): Promise<T> {
  const endsAt = performance.now() + waitMs
  for (;;) {
    const found = await look().catch(() => null)
    if (found !== null) return found
    assert.ok(performance.now() < endsAt, `${what}: not within ${waitMs} ms`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

type MemberRow = Readonly<{ id: string; pid: number; leader: boolean }>
const membersOf = async (server: ServerProcess) =>
  (await call<{ items: MemberRow[] }>(server, 'GET', '/v1/members')).items

describe('several processes on one Postgres', { skip: noPostgres() ?? false }, () => {
  it('know at once what one of them sets up, and deliver each event once', async () => {
    await using members = await openMembers()
    const [a, b] = [await members.start(), await members.start()]
    await eventually('both see both', async () => ((await membersOf(a)).length === 2 ? true : null))
    await using sink = await openScriptedEndpoint()
    const before = performance.now()
    const endpoint = await call<{ id: string }>(a, 'POST', '/v1/endpoints', { url: sink.url })
    await eventually('the other knows it', () => call(b, 'GET', `/v1/endpoints/${endpoint.id}`))
    assert.ok(performance.now() - before < patienceMs)
    for (let n = 0; n < 20; n++) assert.equal((await send(n % 2 === 0 ? a : b, n)).deliveries, 1)
    await eventually('all came', async () => (sink.received.length >= 20 ? true : null))
    const { items } = await call<{ items: { status: string }[] }>(b, 'GET', '/v1/deliveries?limit=100')
    await eventually('all are delivered', async () =>
      (await call<{ items: { status: string }[] }>(b, 'GET', '/v1/deliveries?limit=100')).items.every(
        ({ status }) => status === 'delivered',
      )
        ? true
        : null,
    )
    assert.equal(items.length, 20)
    assert.equal(new Set(sink.received.map(({ headers }) => headers['webhook-id'])).size, sink.received.length)
  })

  it('keep the order of a key, whichever of them takes an event in', async () => {
    await using members = await openMembers()
    const servers = [await members.start(), await members.start(), await members.start()]
    await using sink = await openScriptedEndpoint((_received, index) => (index % 7 === 3 ? { status: 503 } : {}))
    const retry = {
      strategy: 'exponential',
      baseDelay: '20ms',
      multiplier: 1,
      maxDelay: '20ms',
      jitter: 0,
      maxAttempts: 9,
    }
    const first = servers[0]!
    await call(first, 'POST', '/v1/endpoints', { url: sink.url, ordering: 'key', retry })
    await eventually('all know it', async () => {
      const counts = await Promise.all(servers.map((one) => call<{ items: unknown[] }>(one, 'GET', '/v1/endpoints')))
      return counts.every(({ items }) => items.length === 1) ? true : null
    })
    const count = 60
    for (let n = 0; n < count; n++) await send(servers[n % servers.length]!, n, `order-${n % 2}`)
    const delivered = new Map<string, number[]>()
    await eventually('all are delivered', async () => {
      const { items } = await call<{ items: unknown[] }>(first, 'GET', '/v1/deliveries?status=delivered&limit=100')
      return items.length === count ? true : null
    })
    for (const { body } of sink.received) {
      const { data } = JSON.parse(body.toString()) as { data: { n: number } }
      const seen = delivered.get(`${data.n % 2}`) ?? []
      if (seen.at(-1) !== data.n) seen.push(data.n)
      delivered.set(`${data.n % 2}`, seen)
    }
    for (const seen of delivered.values())
      assert.deepEqual(
        seen,
        seen.toSorted((x, y) => x - y),
      )
  })

  it('share the concurrency of an endpoint: in sum it is what was asked for', async () => {
    await using members = await openMembers()
    const servers = [await members.start(), await members.start(), await members.start()]
    let onWire = 0
    let most = 0
    await using sink = await openScriptedEndpoint(async () => {
      onWire += 1
      most = Math.max(most, onWire)
      await new Promise((resolve) => setTimeout(resolve, 15))
      onWire -= 1
      return {}
    })
    await call(servers[0]!, 'POST', '/v1/endpoints', { url: sink.url, concurrency: 4 })
    await eventually('all three are there, and have started', async () =>
      (await membersOf(servers[2]!)).length === 3 ? true : null,
    )
    await eventually('all know it', async () => {
      const counts = await Promise.all(servers.map((one) => send(one, -1)))
      return counts.every(({ deliveries }) => deliveries === 1) ? true : null
    })
    await new Promise((resolve) => setTimeout(resolve, 7_000))
    most = 0
    await Promise.all(Array.from({ length: 150 }, (_, n) => send(servers[n % 3]!, n)))
    await eventually('all are delivered', async () => {
      const { items } = await call<{ items: unknown[] }>(servers[0]!, 'GET', '/v1/deliveries?status=pending&limit=1')
      const { items: inHand } = await call<{ items: unknown[] }>(
        servers[0]!,
        'GET',
        '/v1/deliveries?status=processing&limit=1',
      )
      return items.length + inHand.length === 0 ? true : null
    })
    assert.ok(most <= 4, `${most} at once`)
  })

  it('go on with the work of one that was killed, and one of them leads', async () => {
    await using members = await openMembers()
    const [a, b] = [await members.start(), await members.start()]
    await eventually('both see both', async () => ((await membersOf(b)).length === 2 ? true : null))
    assert.equal((await membersOf(b)).filter(({ leader }) => leader).length, 1)
    await using sink = await openScriptedEndpoint((_received, index) => (index === 0 ? 'hang' : {}))
    await call(a, 'POST', '/v1/endpoints', { url: sink.url, ordering: 'endpoint', timeout: '60s' })
    await send(a, 1)
    await sink.next()
    const owners = await query<{ pid: number }>(
      members.url,
      'select m.pid from live l join members m on m.no = l.owner',
    )
    const [victim, other] = owners[0]?.pid === a.child.pid ? [a, b] : [b, a]
    await victim.kill()
    await eventually(
      'the other is the only one, and leads',
      async () => {
        const rows = await membersOf(other)
        return rows.length === 1 && rows[0]?.leader ? true : null
      },
      takeOverMs,
    )
    await eventually('it is tried again', async () => (sink.received.length === 2 ? true : null), takeOverMs)
    assert.equal(sink.received[0]?.headers['webhook-id'], sink.received[1]?.headers['webhook-id'])
  })

  it('are all paused by one of them and resumed by another, and a new one starts paused', async () => {
    await using members = await openMembers()
    const [a, b] = [await members.start(), await members.start()]
    await using sink = await openScriptedEndpoint()
    const isPaused = async (server: ServerProcess) => (await call<{ paused: boolean }>(server, 'GET', '/readyz')).paused
    await eventually('both see both', async () => ((await membersOf(b)).length === 2 ? true : null))
    await call(a, 'POST', '/v1/endpoints', { url: sink.url, concurrency: 4 })
    assert.deepEqual(await call(a, 'POST', '/v1/dispatch/pause'), { paused: true })
    await eventually('the other is paused', async () => ((await isPaused(b)) ? true : null))
    const c = await members.start()
    assert.equal(await isPaused(c), true)
    for (const [n, server] of [a, b, c].entries()) {
      await eventually('it routes there', async () => ((await send(server, n)).deliveries === 1 ? true : null))
    }
    assert.equal(sink.received.length, 0)
    assert.deepEqual(await call(c, 'POST', '/v1/dispatch/resume'), { paused: false })
    await eventually('all have resumed', async () => ((await isPaused(a)) || (await isPaused(b)) ? null : true))
    await eventually('what waited came', async () => (sink.received.length >= 3 ? true : null))
  })

  it('hand their work over at once when they are stopped', async () => {
    await using members = await openMembers()
    const [a, b] = [await members.start(), await members.start()]
    await eventually('both see both', async () => ((await membersOf(b)).length === 2 ? true : null))
    assert.equal(await a.stop(), 0)
    const rows = await query<{ owned: string }>(
      members.url,
      'select count(*) as owned from live where owner is not null',
    )
    assert.equal(Number(rows[0]?.owned), 0)
    await eventually('it is gone', async () => ((await membersOf(b)).length === 1 ? true : null))
  })
})
