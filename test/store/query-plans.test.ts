import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { createSecretBox } from '../../src/store/secret-box.ts'
import { Append } from '../../src/store/sqlite/append.ts'
import { ClaimWork, readySql } from '../../src/store/sqlite/claim.ts'
import { Commit } from '../../src/store/sqlite/commit.ts'
import { EndpointTable } from '../../src/store/sqlite/endpoints.ts'
import { migrate } from '../../src/store/sqlite/migrations.ts'
import { type Read, Reader } from '../../src/store/sqlite/reads.ts'
import type { DeliveryQuery } from '../../src/store/store.ts'
import { anId } from '../support/builders.ts'

const db = new DatabaseSync(':memory:')
migrate(db, ':memory:', { dryRun: false })

/** The same database, noting what is prepared on it. */
function noting(statements: string[]): DatabaseSync {
  return new Proxy(db, {
    get(target, name) {
      if (name !== 'prepare') return Reflect.get(target, name)
      return (sql: string) => {
        statements.push(sql)
        return target.prepare(sql)
      }
    },
  })
}

function writerStatements(): readonly string[] {
  const statements: string[] = []
  const noted = noting(statements)
  const endpoints = new EndpointTable(db, createSecretBox(new Uint8Array(32)))
  new Append(noted, endpoints)
  new Commit(noted, endpoints, new ClaimWork(noted, endpoints))
  return statements
}

function planOf(sql: string): string {
  const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
  return steps.map((step) => step.detail).join('\n')
}

function planOfRead(read: Read): string {
  const statements: string[] = []
  new Reader(noting(statements)).run(read)
  assert.equal(statements.length, 1)
  return planOf(statements[0]!)
}

const planOfList = (query: Partial<DeliveryQuery>): string =>
  planOfRead({ name: 'listDeliveries', request: { limit: 10, ...query } })

describe('query plans of the writer', () => {
  test('due work is read from the index of what is ready, in its order', () => {
    assert.equal(
      planOf(readySql),
      'SEARCH d USING INDEX deliveries_ready (endpoint_no=? AND due_at>? AND due_at<?)\n' +
        'SEARCH e USING INTEGER PRIMARY KEY (rowid=?)',
    )
  })

  test('no statement reads through a table that grows', () => {
    const statements = writerStatements()
    assert.ok(statements.length > 15)
    for (const sql of statements) {
      // What was leased when the last owner ended is all that its index holds.
      const plan = planOf(sql).replace('SCAN deliveries USING INDEX deliveries_leased', '')
      assert.doesNotMatch(plan, /SCAN/, sql)
    }
  })

  test('no statement sorts, but the one that sums up the few leases that lapsed', () => {
    const sorting = writerStatements().filter((sql) => planOf(sql).includes('TEMP B-TREE'))
    assert.deepEqual(
      sorting.map((sql) => sql.includes(`status = 'processing' AND due_at <= ? GROUP BY endpoint_no`)),
      [true],
    )
  })

  const uses: readonly (readonly [what: string, fragment: string, index: string])[] = [
    ['the next due time', 'ORDER BY due_at LIMIT 1', 'COVERING INDEX deliveries_ready (endpoint_no=? AND due_at>?)'],
    ['the next endpoint with work', 'ORDER BY endpoint_no, due_at', 'COVERING INDEX deliveries_ready (endpoint_no>?)'],
    ['a lapsed lease', 'AND d.endpoint_no = ? ORDER BY d.due_at', 'INDEX deliveries_leased (due_at<?)'],
    ['whether a lane is busy', 'SELECT 1 FROM deliveries', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    ['the next in a lane', 'ORDER BY d.position LIMIT 1', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    ['the tail of a lane', 'max(position)', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    ['a time too far ahead', 'min(retry_after', 'INDEX deliveries_ready (endpoint_no=? AND due_at>?)'],
    ['an idempotency key', 'SELECT fingerprint', 'PRIMARY KEY (scope=? AND key=?)'],
  ]
  for (const [what, fragment, index] of uses) {
    test(`${what} is found by ${index}`, () => {
      const found = writerStatements().filter((sql) => sql.includes(fragment) && sql !== readySql)
      assert.equal(found.length, 1, `"${fragment}" shall name one statement`)
      assert.ok(planOf(found[0]!).includes(`USING ${index}`), planOf(found[0]!))
    })
  }
})

describe('query plans of the reader', () => {
  for (const status of ['failed', 'dead_letter'] as const) {
    test(`a list of what is ${status} reads dead letters only, newest first, page by page`, () => {
      for (const query of [{ status }, { status, cursor: '5' }, { status, tenant: 'a', from: 1 }]) {
        const plan = planOfList(query)
        assert.match(plan, /^SEARCH d USING INDEX deliveries_dead \(status=\?/m)
        assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
      }
    })
  }

  test('what is failed at one endpoint is found among the dead letters', () => {
    const plan = planOfList({ statuses: ['failed'], endpointId: anId('ep') })
    assert.match(plan, /^SEARCH d USING INDEX deliveries_dead \(status=\?/m)
    assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
  })

  test('the deliveries of an event are found by the event', () => {
    const plan = planOfList({ eventId: anId('evt') })
    assert.match(plan, /USING INDEX deliveries_of_event \(event_no=\?/)
    assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
  })

  test('one event, one delivery and its attempts are found by their keys', () => {
    for (const name of ['getEvent', 'getDelivery', 'listAttempts'] as const) {
      assert.doesNotMatch(planOfRead({ name, request: anId('dlv') }), /SCAN|TEMP B-TREE/)
    }
  })

  test('pages of everything follow the row key and never sort', () => {
    for (const cursor of [undefined, '5']) {
      const page = { limit: 10, ...(cursor === undefined ? {} : { cursor }) }
      assert.doesNotMatch(planOfList(page), /TEMP B-TREE/)
      assert.doesNotMatch(planOfRead({ name: 'listEvents', request: page }), /TEMP B-TREE/)
    }
  })
})
