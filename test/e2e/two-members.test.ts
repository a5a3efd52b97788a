import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { posthorn } from '../cli/command.ts'
import { eventually } from '../support/eventually.ts'
import { call, openMembers } from '../support/members.ts'
import { aPgBouncer, noPgBouncer, noPostgres, postgresUrl } from '../support/postgres.ts'
import { testKey } from '../support/postgres-store.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { startServer } from '../support/server-process.ts'

type Listed = Readonly<{ items: readonly Readonly<{ id: string; pid: number; leader: boolean; status: string }>[] }>

describe('two servers', { skip: noPostgres() ?? false }, () => {
  it('are listed by `posthorn members` of either, with their process ids and one leader', async () => {
    await using members = await openMembers()
    const servers = [await members.start(), await members.start()]
    for (const { url } of servers) {
      const env = { POSTHORN_URL: url }
      const items = await eventually('both are listed', async () => {
        const { code, stdout, stderr } = await posthorn(['members', '--output', 'json'], { env })
        assert.equal(code, 0, stderr)
        const found = JSON.parse(stdout) as Listed['items']
        return found.length === 2 ? found : null
      })
      assert.deepEqual(items.map(({ pid }) => pid).toSorted(), servers.map(({ child }) => child.pid).toSorted())
      assert.equal(items.filter(({ leader }) => leader).length, 1)
      const { stdout } = await posthorn(['members'], { env })
      assert.match(stdout, /^MEMBER +.*LEADER/)
      for (const { id } of items) assert.match(stdout, new RegExp(`^${id} .* (?:yes|-) +\\d+ ms ago`, 'm'))
    }
  })

  it('work behind PgBouncer in transaction mode', { skip: noPgBouncer() ?? false }, async (t) => {
    await using members = await openMembers()
    const bouncer = await aPgBouncer(t, { postgresUrl: postgresUrl(), settings: { default_pool_size: 6 } })
    const database = new URL(members.url)
    database.hostname = '127.0.0.1'
    database.port = String(bouncer.port)
    const env = { POSTHORN_ENCRYPTION_KEY: testKey.toString('hex') }
    const servers = [
      await startServer({ database: database.href, env }),
      await startServer({ database: database.href, env }),
    ]
    t.after(() => Promise.all(servers.map((server) => server.kill())))
    const [a, b] = servers as [(typeof servers)[number], (typeof servers)[number]]
    await using sink = await openScriptedEndpoint()
    const endpoint = await call<{ id: string }>(a, 'POST', '/v1/endpoints', { url: sink.url, ordering: 'key' })
    await eventually('the other knows it', () => call(b, 'GET', `/v1/endpoints/${endpoint.id}`).catch(() => null))
    for (let n = 0; n < 20; n++) {
      await call(n % 2 === 0 ? a : b, 'POST', '/v1/events', { type: 'order.created', key: 'one', data: { n } })
    }
    await eventually('all are delivered', async () => {
      const { items } = await call<Listed>(b, 'GET', '/v1/deliveries?status=delivered&limit=100')
      return items.length === 20 ? true : null
    })
    const numbers = sink.received.map(({ body }) => JSON.parse(body.toString()).data.n)
    assert.deepEqual(
      numbers,
      Array.from({ length: 20 }, (_, n) => n),
    )
    assert.equal(await a.stop(), 0)
    await call(b, 'POST', '/v1/events', { type: 'order.created', data: { n: 20 } })
    await eventually('it goes on', async () => (sink.received.length === 21 ? true : null))
  })
})
