import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import type { DeliveryFilter } from '../../src/core/delivery.ts'
import { replayable } from '../../src/core/selection.ts'
import type { DeliveryQuery } from '../../src/store/record-store.ts'
import { Append } from '../../src/store/sqlite/append.ts'
import { ClaimWork, readySql } from '../../src/store/sqlite/claim.ts'
import { Commit } from '../../src/store/sqlite/commit.ts'
import { DeadLetterHours } from '../../src/store/sqlite/dead-letter-hours.ts'
import { EndpointTable } from '../../src/store/sqlite/endpoints.ts'
import { matching, sortsAllThatWaits, walkMatching } from '../../src/store/sqlite/matching.ts'
import { migrate } from '../../src/store/sqlite/migrations.ts'
import { PullBack } from '../../src/store/sqlite/pull-back.ts'
import { Reader } from '../../src/store/sqlite/reads.ts'
import { ReplayOutcomes } from '../../src/store/sqlite/replay-outcomes.ts'
import { Replays } from '../../src/store/sqlite/replays.ts'
import { Revival } from '../../src/store/sqlite/revival.ts'
import { Statements } from '../../src/store/sqlite/statements.ts'
import { Upkeep } from '../../src/store/sqlite/upkeep.ts'
import { anId, t0 } from '../support/builders.ts'

const db = new DatabaseSync(':memory:')
migrate(db, ':memory:', { dryRun: false })

/** The same database, noting what is prepared on it. */
function noting(statements: string[]): DatabaseSync {
  return new Proxy(db, {
    get(target, name) {
      const member = Reflect.get(target, name)
      if (name !== 'prepare') return typeof member === 'function' ? member.bind(target) : member
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
  const endpoints = new EndpointTable(db)
  const hours = new DeadLetterHours(noted)
  const outcomes = new ReplayOutcomes(noted)
  new Append(noted, endpoints, hours)
  new PullBack(noted, endpoints)
  const commit = new Commit(noted, endpoints, new ClaimWork(noted, endpoints), { hours, outcomes })
  const revival = new Revival(noted, endpoints, commit, outcomes)
  const replays = new Replays(noted, endpoints, revival)
  new Upkeep(noted, endpoints, revival, { replays, hours })
  return statements
}

function planOf(sql: string): string {
  const steps = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
  return steps.map((step) => step.detail).join('\n')
}

function planOfRead(read: (reader: Reader) => unknown): string {
  const statements: string[] = []
  read(new Reader(noting(statements)))
  assert.ok(statements.length > 0)
  return statements.map(planOf).join('\n')
}

const planOfList = (query: Partial<DeliveryQuery>): string =>
  planOfRead((reader) => reader.listDeliveries({ limit: 10, ...query }))

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
      // Jobs are few, and upkeep deletes them.
      if (sql.includes('FROM replays')) continue
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
    ['the last in a lane', 'ORDER BY position DESC LIMIT 1', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    ['who follows in a lane', 'ORDER BY position LIMIT 1', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    ['the next in a lane', 'ORDER BY d.position LIMIT 1', 'INDEX deliveries_lane (endpoint_no=? AND lane=?)'],
    [
      'a time too far ahead',
      '(due_at, position, no) >',
      'INDEX deliveries_ready (endpoint_no=? AND (due_at,position)>(?,?))',
    ],
    ['what is too old', '(received_at, no) >', 'INDEX deliveries_pending (endpoint_no=? AND received_at>? AND'],
    ['what a removed endpoint leaves', 'UNION ALL', 'COVERING INDEX deliveries_pending (endpoint_no=?)'],
    ['who has anything pending', 'ORDER BY endpoint_no LIMIT 1', 'COVERING INDEX deliveries_pending (endpoint_no>?)'],
    ['an idempotency key', 'SELECT fingerprint', 'PRIMARY KEY (scope=? AND key=?)'],
  ]
  for (const [what, fragment, index] of uses) {
    test(`${what} is found by ${index}`, () => {
      const found = [...new Set(writerStatements())].filter((sql) => sql.includes(fragment) && sql !== readySql)
      assert.equal(found.length, 1, `"${fragment}" shall name one statement`)
      assert.ok(planOf(found[0]!).includes(`USING ${index}`), planOf(found[0]!))
    })
  }
})

test('the newest number of all deliveries is found without reading them', () => {
  const found = [...new Set(writerStatements())].filter((sql) => sql.includes('max(no)'))
  assert.deepEqual(found.map(planOf), ['SEARCH deliveries'])
})

describe('query plans of the reader', () => {
  test('what waits behind a delivery is read from the index of its lane, from its place on', () => {
    const request = { endpointId: 'ep_1', lane: 'all', after: anId('dlv'), limit: 10, bytesMax: 1_000 }
    const plan = planOfRead((reader) => reader.ahead(request))
    assert.match(plan, /SEARCH d USING INDEX deliveries_lane \(endpoint_no=\? AND lane=\? AND position>\?\)/)
    assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
  })

  for (const status of ['failed', 'dead_letter'] as const) {
    test(`a list of what is ${status} reads dead letters only, newest first, page by page`, () => {
      for (const query of [{}, { cursor: '5' }, { tenant: 'a', from: 1 }]) {
        const plan = planOfList({ statuses: [status], ...query })
        assert.match(plan, /^SEARCH d USING (COVERING )?INDEX deliveries_dead \(status=\?/m)
        assert.doesNotMatch(plan, /SCAN d|TEMP B-TREE/)
      }
    })
  }

  test('what is dead at one endpoint is found among its own dead letters', () => {
    const plan = planOfList({ statuses: ['failed', 'dead_letter'], endpointId: anId('ep'), cursor: '5' })
    assert.match(plan, /USING COVERING INDEX deliveries_dead_of_endpoint \(endpoint_no=\? AND status=\? AND rowid<\?\)/)
    assert.doesNotMatch(plan, /SCAN d|TEMP B-TREE/)
  })

  test('the deliveries of an endpoint are found by the endpoint, in order', () => {
    for (const query of [{}, { statuses: ['delivered', 'failed'] as const }, { type: 'a' }, { error: 'b' }]) {
      const plan = planOfList({ endpointId: anId('ep'), cursor: '5', ...query })
      assert.match(plan, /INDEX deliveries_of_endpoint \(endpoint_no=\? AND rowid<\?\)/)
      assert.doesNotMatch(plan, /SCAN d|TEMP B-TREE/)
    }
  })

  test('what is pending or processing is found among what is, without reading rows', () => {
    const plan = planOfList({ statuses: ['pending', 'processing'] })
    assert.match(plan, /SCAN d USING COVERING INDEX deliveries_pending/)
    assert.match(plan, /SCAN d USING COVERING INDEX deliveries_leased/)
    const ofEndpoint = planOfList({ statuses: ['pending'], endpointId: anId('ep') })
    assert.match(ofEndpoint, /SEARCH d USING COVERING INDEX deliveries_pending \(endpoint_no=\?\)/)
  })

  test('exactly the pages that sort what waits are left to the thread for long reads', () => {
    const endpointId = anId('ep')
    const queries: readonly DeliveryFilter[] = [
      ...[{}, { statuses: ['pending'] }, { statuses: ['pending'], endpointId }, { statuses: ['pending', 'failed'] }],
      ...[{ statuses: ['pending', 'delivered'] }, { statuses: ['failed'] }, { statuses: ['pending'], ids: [] }],
      ...[{ statuses: ['pending'], eventId: anId('evt') }, { endpointId }],
      ...[{ statuses: ['pending'], replayId: anId('rpl') }],
    ] as const
    for (const query of queries) {
      const sorts = /TEMP B-TREE/.test(planOfList(query))
      assert.equal(sortsAllThatWaits(query), sorts, JSON.stringify(query))
    }
  })

  test('what was received since an instant is found without reading what is older', () => {
    assert.match(planOfList({ from: t0 }), /SEARCH d USING INTEGER PRIMARY KEY \(rowid>\?\)/)
    const events = planOfRead((reader) => reader.listEvents({ limit: 10, from: t0 }))
    assert.match(events, /SEARCH e USING INTEGER PRIMARY KEY \(rowid>\?\)/)
  })

  test('named deliveries are found by their keys', () => {
    assert.match(planOfList({ ids: [anId('dlv')] }), /SEARCH d USING INTEGER PRIMARY KEY \(rowid=\?\)/)
  })

  test('the deliveries of an event are found by the event', () => {
    const plan = planOfList({ eventId: anId('evt') })
    assert.match(plan, /USING COVERING INDEX deliveries_of_event \(event_no=\?/)
    assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
  })

  test('deliveries and events of a key are found by the key, whatever else there is', () => {
    for (const query of [
      {},
      { cursor: '5' },
      { statuses: ['pending'] as const, tenant: 'a', endpointId: anId('ep') },
    ]) {
      const plan = planOfList({ key: 'order-42', ...query })
      assert.match(plan, /SEARCH d USING (COVERING )?INDEX deliveries_of_event \(event_no=\?/)
      assert.match(plan, /SEARCH events USING COVERING INDEX events_of_key \(key=\?\)/)
      assert.doesNotMatch(plan, /SCAN (d|e|events)\b/)
      assert.equal(sortsAllThatWaits({ key: 'order-42', ...query }), false)
    }
    const events = planOfRead((reader) => reader.listEvents({ limit: 10, key: 'order-42', type: 'a.*', cursor: '5' }))
    assert.match(events, /SEARCH e USING INDEX events_of_key \(key=\? AND rowid<\?\)/)
    assert.doesNotMatch(events, /SCAN|TEMP B-TREE/)
  })

  test('a key that very many events have is checked of each row, and nothing is sorted for it', () => {
    const insert = db.prepare(`
      INSERT INTO events (no, id, tenant, type, key, received_at, content_type, size, body)
      VALUES (?, ?, 'a', 'b', 'frequent', 1, 'text/plain', 0, x'')`)
    for (let no = 1; no <= 1_001; no++) insert.run(no, `evt_${no}`)
    for (const query of [{}, { statuses: ['pending'] as const }, { statuses: ['failed'] as const }]) {
      assert.doesNotMatch(planOfList({ key: 'frequent', cursor: '5', ...query }), /TEMP B-TREE/)
    }
    assert.match(planOfList({ key: 'frequent', statuses: ['failed'] }), /INDEX deliveries_dead \(status=\?/)
  })

  test('the last status of a delivery is looked up by its key', () => {
    const plan = planOfList({ statuses: ['failed'], statusClasses: ['4xx'] })
    assert.match(plan, /SEARCH a USING PRIMARY KEY \(delivery_no=\? AND number=\?\)/)
  })

  test('the deliveries of a replay are found by the replay, in order', () => {
    for (const query of [
      {},
      { statuses: ['failed', 'dead_letter'] as const },
      { endpointId: anId('ep'), cursor: '5' },
    ]) {
      const plan = planOfList({ replayId: anId('rpl'), ...query })
      assert.match(plan, /SEARCH d USING (COVERING )?INDEX deliveries_of_replay \(replay_no=\?/)
      assert.doesNotMatch(plan, /SCAN d|TEMP B-TREE/)
    }
  })

  test('one event, one delivery and its attempts are found by their keys', () => {
    for (const name of ['getEvent', 'getDelivery', 'listAttempts', 'getReplay'] as const) {
      assert.doesNotMatch(
        planOfRead((reader) => reader[name](anId('dlv'))),
        /SCAN|TEMP B-TREE/,
      )
    }
  })

  test('what an id begins with is a range of keys', () => {
    for (const prefix of ['evt', 'dlv', 'rpl'] as const) {
      const beginning = anId(prefix).slice(0, 12)
      const plan = planOfRead((reader) => reader.findIds({ beginning, tenant: 'acme', limit: 3 }))
      assert.match(plan, /SEARCH (?:events|d|replays) USING/)
      assert.doesNotMatch(plan, /SCAN|TEMP B-TREE/)
    }
  })

  test('pages of everything follow the row key and never sort', () => {
    for (const cursor of [undefined, '5']) {
      const page = { limit: 10, ...(cursor === undefined ? {} : { cursor }) }
      assert.doesNotMatch(planOfList(page), /TEMP B-TREE/)
      assert.doesNotMatch(
        planOfRead((reader) => reader.listEvents(page)),
        /TEMP B-TREE/,
      )
      assert.doesNotMatch(
        planOfRead((reader) => reader.listReplays(page)),
        /TEMP B-TREE/,
      )
    }
  })
})

describe('query plans of steps and walks', () => {
  const walked = (filter: DeliveryFilter): string => {
    const statements: string[] = []
    const bounds = { span: { after: 0, last: 9 }, limit: 1, looksMax: 1 }
    const noted = new Statements(noting(statements))
    walkMatching(noted, matching(replayable(filter), noted), bounds)
    return statements.map(planOf).join('\n')
  }

  test('a step of a replay goes on where the last one ended, without sorting', () => {
    for (const filter of [{}, { endpointId: 'ep_1' }, { tenant: 'a', type: 'b', error: 'c', from: 1 }]) {
      assert.match(walked(filter), /status=\? AND rowid>\? AND rowid<\?/)
      assert.doesNotMatch(walked(filter), /SCAN d|TEMP B-TREE/)
    }
    assert.match(walked({ statuses: ['delivered'] }), /INTEGER PRIMARY KEY \(rowid>\? AND rowid<\?\)/)
  })
})
