import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../support/eventually.ts'
import { FaultScene } from '../support/fault-scene.ts'
import { noOwnPostgres } from '../support/postgres.ts'
import { noSmallDisk } from '../support/small-disk.ts'

const leaseMs = 10_000

/** Until every member refuses events for this reason; says it on /readyz too. */
async function allRefuse(scene: FaultScene, code: string, reason: RegExp): Promise<void> {
  const expected = { status: 503, retryAfter: '5', type: `urn:posthorn:problem:${code}` }
  await eventually('all refuse events', async () => {
    const answers = await scene.sendToEach()
    return answers.every(({ status }) => status === 503) ? true : null
  }).catch((error) => {
    throw new Error(`${error.message}\n${scene.members.map(({ server }) => server.said().slice(-2_000)).join('\n')}`)
  })
  for (const answer of await scene.sendToEach()) assert.deepEqual(answer, expected)
  for (const { status, retryAfter, reasons } of await scene.readiness()) {
    assert.deepEqual({ status, retryAfter }, { status: 503, retryAfter: '5' })
    assert.match(reasons.join(' '), reason)
  }
}

async function allAreReady(scene: FaultScene): Promise<void> {
  await eventually('all are ready', async () => {
    const all = await scene.readiness()
    return all.every(({ status }) => status === 200) ? true : null
  })
}

describe('members whose Postgres has a full disk', { skip: noOwnPostgres() ?? noSmallDisk() ?? false }, () => {
  it('refuse events until there is room, and lose nothing', async (t) => {
    const scene = await FaultScene.open(t, { diskKib: 160 * 1_024 })
    await scene.arrived(60)
    const makeRoom = scene.disk!.fill()
    await eventually('all refuse events', async () => {
      const answers = await scene.sendToEach()
      return answers.every(({ status, retryAfter }) => status === 503 && retryAfter === '5') ? true : null
    })
    makeRoom()
    // A server that could not write its log has ended.
    await scene.postgres.start()
    await allAreReady(scene)
    await scene.arrived(60)
    await scene.check(t, { cuts: 0 })
  })
})

describe('members without a database that they can write', { skip: noOwnPostgres() ?? false }, () => {
  it('refuse events and spend nothing, for longer than a lease, and go on by themselves', async (t) => {
    const scene = await FaultScene.open(t)
    await scene.arrived(60)
    await scene.query('ALTER SYSTEM SET default_transaction_read_only = on')
    await scene.query('SELECT pg_reload_conf()')
    await allRefuse(scene, 'store_read_only', /read-only/)
    await scene.query('ALTER SYSTEM RESET default_transaction_read_only')
    await scene.query('SELECT pg_reload_conf()')
    await allAreReady(scene)
    await scene.arrived(60)

    await scene.postgres.kill()
    const awaySince = performance.now()
    await allRefuse(scene, 'store_unavailable', /cannot be reached/)
    await pause(1.3 * leaseMs - (performance.now() - awaySince))
    for (const { server } of scene.members) assert.match(server.said(), /member\.lapsed/)
    const attempts = scene.sink.arrived.length
    await scene.postgres.start()
    await allAreReady(scene)
    await scene.arrived(60)
    assert.ok(scene.sink.arrived.length > attempts)
    await scene.check(t, { cuts: 1 })
    const fenced = await scene.query('SELECT id FROM members WHERE fenced')
    assert.deepEqual(fenced, [])
  })
})
