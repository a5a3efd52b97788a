import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Change } from '../../src/store/pipeline-store.ts'
import { ended } from '../contracts/store/promises.ts'
import { anArrival, anEndpoint, delivered, retryAt, t0 } from '../support/builders.ts'
import { aSchema, noPostgres, query } from '../support/postgres.ts'
import { openPostgres } from '../support/postgres-store.ts'

type Shown = Record<string, string | number | null>

/** The two queries of the document "Retry Logic for Failed Processing", on the view. */
const loader = `SELECT id FROM delivery_status
  WHERE status IN ('pending', 'processing') AND (retry_after IS NULL OR retry_after <= $1) ORDER BY row_key`
const deadLetters = `SELECT id FROM delivery_status WHERE status = 'failed' AND attempts >= 5`

describe('views for people with psql', { skip: noPostgres() ?? false }, () => {
  it('show deliveries of every status as the API does, and answer the queries of the seeds', async () => {
    await using place = await aSchema()
    const store = await openPostgres(place)
    try {
      const endpoint = anEndpoint()
      await store.putEntry('endpoint', endpoint, 0)
      const arrivals = Array.from({ length: 5 }, () => anArrival(endpoint, { event: { key: 'k' } }))
      await store.append(arrivals)
      const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
      const request = { now: t0 + 1, leaseEndsAt: t0 + 60_000, limit: 4, bytesMax: 1e6 }
      const { claims } = await store.claim({ from: { endpointId: endpoint.id }, ...request })
      const [retried, dead, done] = claims
      const to = { ...retryAt(retried!.delivery, t0 + 5_000), lastError: 'HTTP 503' }
      const exhausted = ended(dead!, { settledAt: t0 + 123 })
      const changes: Change[] = [
        { to, attempt: null, claimNext: null },
        { ...exhausted, to: { ...exhausted.to, attempts: 5 } },
        delivered(done!),
      ]
      await store.commit(changes)
      const rows = await query<Shown>(place.url, 'SELECT * FROM delivery_status ORDER BY row_key')
      assert.deepEqual(
        rows.map(({ id }) => id),
        ids,
      )
      assert.deepEqual(
        rows.map(({ status }) => status),
        ['pending', 'failed', 'delivered', 'processing', 'pending'],
      )
      assert.equal(rows[0]?.retry_after, '2026-01-01T00:00:05.000Z')
      assert.equal(rows[1]?.settled_at, '2026-01-01T00:00:00.123Z')
      assert.deepEqual([rows[2]?.delivered_at, rows[2]?.settled_at], ['2026-01-01T00:00:00.010Z', null])
      assert.deepEqual([rows[4]?.event_id, rows[4]?.endpoint_id], [arrivals[4]!.event.id, endpoint.id])
      const idsOf = async (sql: string, values: readonly unknown[] = []) =>
        (await query<Shown>(place.url, sql, values)).map(({ id }) => id)
      assert.deepEqual(await idsOf(loader, ['2026-01-01T00:00:04.999Z']), [ids[3], ids[4]])
      assert.deepEqual(await idsOf(loader, ['2026-01-01T00:00:05.000Z']), [ids[0], ids[3], ids[4]])
      assert.deepEqual(await idsOf(deadLetters), [ids[1]])
      assert.deepEqual(await idsOf('SELECT id FROM dead_letters'), [ids[1]])
      assert.deepEqual(await idsOf('SELECT id FROM delivery_status WHERE row_key = row_key_of($1)', [ids[2]]), [ids[2]])
    } finally {
      await store.close()
    }
  })
})
