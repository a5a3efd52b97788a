import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Attempt } from '../../src/core/attempt.ts'
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

const attempt: Attempt = {
  ...{
    number: 1,
    startedAt: t0,
    tookMs: 1,
    outcome: 'retryable',
    statusCode: null,
    error: 'no',
    responseHeaders: null,
  },
  ...{ responseBody: null, errorClass: null, dependency: null, stack: null },
}

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

  it('answer for dead letters by consumer, time range and class of their last error', async () => {
    await using place = await aSchema()
    const store = await openPostgres(place)
    try {
      const consumers = [anEndpoint(), anEndpoint()] as const
      for (const consumer of consumers) {
        await store.putEntry('endpoint', consumer, 0)
        await store.append([anArrival(consumer), anArrival(consumer), anArrival(consumer)])
      }
      const request = { now: t0 + 1, leaseEndsAt: t0 + 60_000, limit: 9, bytesMax: 1e6 }
      const day = 86_400_000
      for (const consumer of consumers) {
        const { claims } = await store.claim({ from: { endpointId: consumer.id }, ...request })
        const classes = [null, 'TypeError', 'TypeError']
        for (const [at, claim] of claims.entries()) {
          const thrown = (number: number, errorClass: string | null) => ({ ...attempt, number, errorClass })
          const waits = retryAt(claim.delivery, t0 + 2)
          await store.commit([{ to: waits, attempt: thrown(1, 'RangeError'), claimNext: null }])
          const [again] = (await store.claim({ from: { deliveryIds: [claim.delivery.id] }, ...request, now: t0 + 3 }))
            .claims
          const end = ended(again!, { settledAt: t0 + at * day })
          await store.commit([{ ...end, attempt: thrown(2, classes[at]!) }])
        }
      }
      const sql = `SELECT endpoint_id, error_class, count(*)::int FROM dead_letters
        WHERE settled_at >= $1 AND settled_at < $2 GROUP BY 1, 2 ORDER BY 1, 2 NULLS FIRST`
      const range = ['2026-01-01T00:00:00.000Z', '2026-01-03T00:00:00.000Z']
      const expected = consumers
        .map(({ id }) => id)
        .toSorted()
        .flatMap((id) => [
          { endpoint_id: id, error_class: null, count: 1 },
          { endpoint_id: id, error_class: 'TypeError', count: 1 },
        ])
      assert.deepEqual(await query(place.url, sql, range), expected)
    } finally {
      await store.close()
    }
  })
})
