import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { call, type Members, openMembers } from '../support/members.ts'
import { noPostgres } from '../support/postgres.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import type { ServerProcess } from '../support/server-process.ts'

type Items<T> = Readonly<{ items: readonly T[] }>

/** As many that one of two members would have all of the only slot of some. */
const endpointCount = 8

async function two(members: Members, env: Record<string, string>): Promise<readonly [ServerProcess, ServerProcess]> {
  return [await members.start(env), await members.start()]
}

/** All know all endpoints of the test, of which `count` have one slot. */
async function withOneSlot([a, b]: readonly [ServerProcess, ServerProcess], url: string): Promise<void> {
  const { items: before } = await call<Items<unknown>>(a, 'GET', '/v1/endpoints')
  for (let n = 0; n < endpointCount; n++) {
    await call(a, 'POST', '/v1/endpoints', { url, types: [`one.${n}`], concurrency: 1 })
  }
  await eventually('the other knows them', async () => {
    const { items } = await call<Items<unknown>>(b, 'GET', '/v1/endpoints?limit=100')
    return items.length === before.length + endpointCount ? true : null
  })
}

async function sendToEach(server: ServerProcess): Promise<void> {
  for (let n = 0; n < endpointCount; n++) await call(server, 'POST', '/v1/events', { type: `one.${n}`, data: n })
}

describe('a member that does not work leaves its share to the others', { skip: noPostgres() ?? false }, () => {
  it('when it was started with --paused, wherever the events come in', async () => {
    await using members = await openMembers()
    await using sink = await openScriptedEndpoint()
    const servers = await two(members, { POSTHORN_PAUSED: 'yes' })
    await withOneSlot(servers, sink.url)
    for (const server of servers) await sendToEach(server)
    await eventually('all came', async () => (sink.received.length >= 2 * endpointCount ? true : null))
    const { items } = await call<Items<{ pid: number; leader: boolean }>>(servers[0], 'GET', '/v1/members')
    assert.equal(items.find(({ leader }) => leader)?.pid, servers[1].child.pid, 'one that works leads')
  })

  it('when it is stopped, while its last attempts finish', async () => {
    await using members = await openMembers()
    await using slow = await openScriptedEndpoint(() => 'hang')
    await using sink = await openScriptedEndpoint()
    const servers = await two(members, { POSTHORN_GRACE: '50s' })
    const [a, b] = servers
    await call(a, 'POST', '/v1/endpoints', { url: slow.url, types: ['slow.*'], concurrency: 2, timeout: '60s' })
    await withOneSlot(servers, sink.url)
    await call(a, 'POST', '/v1/events', { type: 'slow.one', data: 1 })
    await slow.next()
    a.child.kill('SIGTERM')
    await eventually('it refuses events', async () => {
      const answered = await fetch(`${a.url}/readyz`).catch(() => null)
      return answered?.ok ? null : true
    })
    await sendToEach(b)
    await eventually('all came', async () => (sink.received.length >= endpointCount ? true : null))
    assert.equal(a.child.exitCode, null, 'it still waits for the slow one')
  })
})
