import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import pg from 'pg'
import { type DeliveryFilter, type DeliveryStatus, deliveryStatuses, isSettled } from '../../src/core/delivery.ts'
import type { Reason } from '../../src/core/outcome.ts'
import { typeMatcher } from '../../src/core/routing.ts'
import { Given, typeCondition } from '../../src/store/postgres/filter-conditions.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, ended, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival } from '../support/builders.ts'
import { noPostgres, postgresUrl } from '../support/postgres.ts'
import { openPostgresUnderTest } from '../support/postgres-store.ts'

const skip = noPostgres() ?? false
const client = skip === false ? new pg.Client({ connectionString: postgresUrl() }) : null

before(async () => {
  await client?.connect()
})
after(async () => {
  await client?.end()
})

/** Of these types, those that the database finds by the pattern. */
async function foundBy(pattern: string, types: readonly string[]): Promise<readonly string[]> {
  const given = new Given()
  const where = given.all([typeCondition(pattern)])
  const sql = `SELECT type FROM unnest(${given.add([...types])}::text[]) WITH ORDINALITY AS e (type, n) WHERE ${where} ORDER BY n`
  const { rows } = await client!.query<{ type: string }>(sql, given.values)
  return rows.map(({ type }) => type)
}

test('a pattern finds the types that an endpoint with it would get', { skip }, async () => {
  const word = fc.oneof(
    fc.constantFrom('a', 'b', 'posthorn', 'order', 'a-b', 'x_1', 'A/b', 'c:d', '0af'),
    fc.stringMatching(/^[A-Za-z0-9_:/-]{1,4}$/),
  )
  const dotted = (part: fc.Arbitrary<string>) =>
    fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('.'))
  const pattern = dotted(fc.oneof(word, fc.constantFrom('*', '*', 'a*', '.', '\\d', '(a|b)', '[a]', 'a?', '%')))
  await fc.assert(
    fc.asyncProperty(pattern, fc.array(dotted(word), { minLength: 1, maxLength: 20 }), async (wanted, others) => {
      // Types that are near to the pattern, so that many match.
      const near = ['a', 'posthorn', 'b.c'].map((part) => wanted.replaceAll('*', part))
      const types = [...near, ...others]
      assert.deepEqual(await foundBy(wanted, types), types.filter(typeMatcher([wanted])), wanted)
    }),
    { numRuns: 300 },
  )
})

type Known = Readonly<{ id: string; status: DeliveryStatus; reason: Reason | null; lastError: string | null }>

/** One delivery of every status, and of every reason that is asked for. */
async function fill(store: Store): Promise<readonly Known[]> {
  const endpoint = await withEndpoint(store)
  const reasons = ['exhausted', 'cancelled'] as const
  const plan = deliveryStatuses.flatMap((status) =>
    reasons.map((reason, index) => ({ status, reason, lastError: index === 0 ? '100% of A_B\\' : 'axb' })),
  )
  const known: Known[] = []
  for (const { status, reason, lastError } of plan) {
    const arrival = anArrival(endpoint)
    const { id } = arrival.deliveries[0]!
    await store.append([arrival])
    if (status !== 'pending') {
      const claim = only((await claimDue(store, endpoint, { from: { deliveryIds: [id] } })).claims)
      if (isSettled(status)) await store.commit([ended(claim, { status: status as never, reason, lastError })])
    }
    const isDead = status === 'failed' || status === 'dead_letter'
    known.unshift({ id, status, reason: isDead ? reason : null, lastError: isSettled(status) ? lastError : null })
  }
  return known
}

test('finds what matches, whatever statuses, reasons and errors are asked for together', { skip }, async () => {
  const under = await openPostgresUnderTest()
  try {
    const { store } = under
    const known = await fill(store)
    const filters = fc.record(
      {
        statuses: fc.subarray([...deliveryStatuses]),
        reason: fc.constantFrom<Reason>('exhausted', 'cancelled', 'expired'),
        exceptReasons: fc.subarray<Reason>(['exhausted', 'cancelled']),
        error: fc.constantFrom('', '%', '_', '\\', 'a_b', 'of a', 'AXB', 'x'),
      },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(filters, fc.integer({ min: 1, max: 12 }), async (filter: DeliveryFilter, limit) => {
        const { statuses, reason, exceptReasons = [], error } = filter
        const wanted = known.filter(
          (one) =>
            (statuses?.includes(one.status) ?? true) &&
            (reason === undefined || one.reason === reason) &&
            (one.reason === null || !exceptReasons.includes(one.reason)) &&
            (error === undefined || one.lastError?.toLowerCase().includes(error.toLowerCase())),
        )
        const page = await store.listDeliveries({ ...filter, limit })
        assert.deepEqual(
          page.items.map(({ delivery }) => delivery.id),
          wanted.map(({ id }) => id).slice(0, limit),
        )
        assert.equal(page.next !== null, wanted.length > limit)
        assert.equal(await store.countDeliveries(filter, 100), wanted.length)
      }),
      { numRuns: 150 },
    )
  } finally {
    await under.destroy()
  }
})

test('what is no cursor of a page is behind everything', { skip }, async () => {
  const under = await openPostgresUnderTest()
  try {
    const { store } = under
    await store.append([anArrival(await withEndpoint(store))])
    for (const cursor of ['17', 'nonsense', '', '\0', "'", 'ffffffff-ffff-ffff-ffff-fffffffffffg']) {
      const nothing = { items: [], next: null }
      assert.deepEqual(await store.listDeliveries({ limit: 5, cursor }), nothing)
      assert.deepEqual(await store.listEvents({ limit: 5, cursor }), nothing)
      assert.deepEqual((await store.listReplays({ limit: 5, cursor })).items, [])
    }
  } finally {
    await under.destroy()
  }
})
