import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, type TestContext, test } from 'node:test'
import type { Endpoint } from '../../src/core/endpoint.ts'
import type { Claim } from '../../src/store/pipeline-store.ts'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint, delivered, retryAt, t0 } from '../support/builders.ts'
import { Scene } from './scene.ts'

/** The two queries of the document "Retry Logic for Failed Processing", on the view. */
const loader = `SELECT id FROM delivery_status
  WHERE status IN ('pending', 'processing') AND (retry_after IS NULL OR retry_after <= ?) ORDER BY id`
const deadLetters = `SELECT id FROM delivery_status WHERE status = 'failed' AND attempts >= 5`

const lease = t0 + 60_000
const due = t0 + 5_000
const fixedWidth = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

function failed({ delivery }: Claim, attempts: number) {
  const { leaseEndsAt: _, ...facts } = delivery
  const end = {
    status: 'failed',
    reason: attempts >= 5 ? 'exhausted' : 'permanent_status',
    settledAt: t0 + 123,
  } as const
  const to = {
    ...facts,
    ...end,
    attempts,
    version: delivery.version + 1,
    lastAttemptAt: t0 + 120,
    lastError: 'HTTP 404',
  }
  return { to, attempt: null, claimNext: null }
}

async function claimed(store: Store, endpoint: Endpoint): Promise<Claim> {
  const request = { now: t0 + 1, leaseEndsAt: lease, limit: 1, bytesMax: 1e6 }
  return (await store.claim({ from: { endpointId: endpoint.id }, ...request })).claims[0]!
}

/** One delivery in each state. */
async function scene(t: TestContext) {
  const scene = new Scene(t)
  const file = await scene.newFile()
  const store = await scene.open(file)
  const endpoint = anEndpoint()
  await store.putEntry('endpoint', endpoint, 0)
  const next = async (): Promise<Claim> => {
    await store.append([anArrival(endpoint, { event: { key: 'k' } })])
    return claimed(store, endpoint)
  }
  const retried = await next()
  const exhausted = await next()
  const refused = await next()
  const arrived = await next()
  await store.commit([
    { to: retryAt(retried.delivery, due), attempt: null, claimNext: null },
    failed(exhausted, 5),
    failed(refused, 1),
    delivered(arrived, t0 + 10),
  ])
  const inHand = await next()
  const waiting = anArrival(endpoint)
  await store.append([waiting])
  const ids = {
    retried: retried.delivery.id,
    exhausted: exhausted.delivery.id,
    refused: refused.delivery.id,
    arrived: arrived.delivery.id,
    inHand: inHand.delivery.id,
    waiting: waiting.deliveries[0]!.id,
  }
  return { file, ids, endpoint, event: inHand.event, db: scene.plain(file), store }
}

describe('the views', () => {
  test('answer the start-up loader with what is pending or processing and due, in ISO text', async (t) => {
    const { db, ids } = await scene(t)
    const load = (now: number) =>
      db
        .prepare(loader)
        .all(new Date(now).toISOString())
        .map((row) => row.id)
    assert.deepEqual(load(due - 1), [ids.inHand, ids.waiting])
    assert.deepEqual(load(due), [ids.retried, ids.inHand, ids.waiting])
  })

  test('answer the dead-letter query with what used up its attempts', async (t) => {
    const { db, ids } = await scene(t)
    assert.deepEqual(
      db
        .prepare(deadLetters)
        .all()
        .map((row) => row.id),
      [ids.exhausted],
    )
  })

  test('show dead letters, whatever their reason, and nothing else', async (t) => {
    const { db, ids } = await scene(t)
    const rows = db.prepare('SELECT id, reason, last_error, settled_at FROM dead_letters ORDER BY id').all()
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [
        { id: ids.exhausted, reason: 'exhausted', last_error: 'HTTP 404', settled_at: '2026-01-01T00:00:00.123Z' },
        { id: ids.refused, reason: 'permanent_status', last_error: 'HTTP 404', settled_at: '2026-01-01T00:00:00.123Z' },
      ],
    )
  })

  test('show a delivery in snake_case, with times as text of one width', async (t) => {
    const { db, ids, endpoint, event } = await scene(t)
    const shown = (id: string) => ({ ...db.prepare('SELECT * FROM delivery_status WHERE id = ?').get(id) })
    assert.deepEqual(shown(ids.inHand), {
      id: ids.inHand,
      event_id: event.id,
      endpoint_id: endpoint.id,
      type: 'order.created',
      tenant: 'default',
      key: 'k',
      status: 'processing',
      attempts: 0,
      retry_after: null,
      last_error: null,
      reason: null,
      received_at: '2026-01-01T00:00:00.000Z',
      last_attempt_at: null,
      delivered_at: null,
      settled_at: null,
    })
    assert.equal(shown(ids.retried).retry_after, '2026-01-01T00:00:05.000Z')
    assert.equal(shown(ids.arrived).delivered_at, '2026-01-01T00:00:00.010Z')
  })

  test('show every millisecond as it is', async (t) => {
    const { db, store, endpoint } = await scene(t)
    const instants = Array.from({ length: 1_000 }, (_, ms) => t0 + ms * 86_400_007 + ms)
    await store.append(
      instants.map((receivedAt) => anArrival(endpoint, { event: { receivedAt }, delivery: { dueAt: t0 } })),
    )
    const rows = db.prepare('SELECT received_at FROM delivery_status ORDER BY id DESC LIMIT 1000').all()
    const shown = rows.map((row) => String(row.received_at)).reverse()
    assert.deepEqual(
      shown,
      instants.map((at) => new Date(at).toISOString()),
    )
    assert.ok(shown.every((text) => fixedWidth.test(text)))
  })

  const shell = spawnSync('sqlite3', ['--version']).status === 0
  test('work in the sqlite3 shell', { skip: shell ? false : 'sqlite3 is not installed' }, async (t) => {
    const { file, ids } = await scene(t)
    const ask = (sql: string) => {
      const { stdout, stderr } = spawnSync('sqlite3', ['-readonly', file, sql], { encoding: 'utf8' })
      assert.equal(stderr, '')
      return stdout.trim().split('\n')
    }
    assert.deepEqual(ask(loader.replace('?', `'${new Date(due - 1).toISOString()}'`)), [ids.inHand, ids.waiting])
    assert.deepEqual(ask(deadLetters), [ids.exhausted])
  })
})
