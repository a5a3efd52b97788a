import assert from 'node:assert/strict'
import { chownSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import type { Client } from 'pg'
import { PosthornError } from '../../src/core/errors.ts'
import type { Database } from '../../src/store/database.ts'
import { postgresDatabase } from '../../src/store/postgres/database.ts'
import { inspectServer } from '../../src/store/postgres/server-check.ts'
import { claimDue, lease, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, aSource, delivered, t0 } from '../support/builders.ts'
import { makeCertificate } from '../support/certificates.ts'
import {
  aDatabase,
  anOwnPostgres,
  aPgBouncer,
  aSchema,
  noOwnPostgres,
  noPgBouncer,
  noPostgres,
  notDurable,
  type Place,
  postgresUrl,
  query,
} from '../support/postgres.ts'
import { openPostgres, postgresAt, testKey } from '../support/postgres-store.ts'
import type { Service } from '../support/services/service.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const listener = {
  onFatal: (error: Error) => {
    throw error
  },
}

/** What it says is one sentence for a person, or a few, and names what to do. */
async function refused(database: Database): Promise<string> {
  const error = await database.open(listener).then(
    async ({ store }) => {
      await store.close()
      return null
    },
    (reason) => reason,
  )
  assert.ok(error instanceof PosthornError, String(error?.stack))
  assert.doesNotMatch(error.message, /undefined|\[object|defect|:posthorn@/)
  return `${error.code}: ${error.message}`
}

const changed = (given: string, change: (url: URL) => void): string => {
  const url = new URL(given)
  change(url)
  return url.href
}

/** A user with a password and nothing else. */
async function aUser(t: TestContext, database: Place): Promise<Readonly<{ name: string; url: string }>> {
  const name = `${database.name}_user`
  await query(database.url, `CREATE ROLE ${name} LOGIN PASSWORD 'secret'`)
  t.after(async () => {
    await database.drop()
    await query(postgresUrl(), `DROP ROLE ${name}`)
  })
  const url = changed(database.url, (target) => {
    target.username = name
    target.password = 'secret'
  })
  return { name, url }
}

async function works(url: string): Promise<void> {
  const store = await openPostgres({ url })
  try {
    const endpoint = await withEndpoint(store)
    await store.append([anArrival(endpoint)])
    const claim = only((await claimDue(store, endpoint)).claims)
    assert.deepEqual((await store.commit([delivered(claim)]))[0]?.kind, 'applied')
  } finally {
    await store.close()
  }
}

describe('opening says what is wrong and what to do', limits, () => {
  it('with a wrong password', async () => {
    const url = changed(postgresUrl(), (target) => {
      target.password = 'wrong'
    })
    assert.match(await refused(postgresAt({ url })), /^store_unavailable: .*check user, password and pg_hba.conf/)
  })

  it('with a database that is not there', async () => {
    const url = changed(postgresUrl(), (target) => {
      target.pathname = 'nowhere'
    })
    assert.match(await refused(postgresAt({ url })), /^store_missing: .*create it, or name another.*"nowhere"/)
  })

  it('with a server that is down, and a host that is unknown', async () => {
    const down = changed(postgresUrl(), (target) => {
      target.port = '1'
    })
    assert.match(await refused(postgresAt({ url: down })), /^store_unavailable: .*cannot be reached.*ECONNREFUSED/)
    const unknown = changed(postgresUrl(), (target) => {
      target.hostname = 'nowhere.invalid'
    })
    assert.match(
      await refused(postgresAt({ url: unknown })),
      /^store_unavailable: .*cannot be reached.*nowhere.invalid/,
    )
  })

  it('to a user who may not make a schema; one that is made for them works', async (t) => {
    const database = await aDatabase()
    const user = await aUser(t, database)
    assert.match(
      await refused(postgresAt(user)),
      /^store_unavailable: .*lacks rights.*CREATE SCHEMA posthorn AUTHORIZATION/,
    )
    await query(database.url, `CREATE SCHEMA posthorn AUTHORIZATION ${user.name}`)
    await works(user.url)
    await works(user.url)
  })

  it('to a user who may not use the tables of another', async (t) => {
    const database = await aDatabase()
    const user = await aUser(t, database)
    await works(database.url)
    await query(database.url, `GRANT USAGE ON SCHEMA posthorn TO ${user.name}`)
    assert.match(await refused(postgresAt(user)), /^store_unavailable: .*connect as that one.*denied for table/)
  })

  it('to a user whose transactions are read-only or isolated too much', async (t) => {
    const database = await aDatabase()
    const user = await aUser(t, database)
    await query(database.url, `CREATE SCHEMA posthorn AUTHORIZATION ${user.name}`)
    await query(database.url, `ALTER ROLE ${user.name} SET default_transaction_read_only = on`)
    assert.match(
      await refused(postgresAt(user)),
      /^store_read_only: .*ALTER ROLE .* default_transaction_read_only = off/,
    )
    await query(database.url, `ALTER ROLE ${user.name} RESET default_transaction_read_only`)
    await query(database.url, `ALTER ROLE ${user.name} SET default_transaction_isolation = 'repeatable read'`)
    assert.match(await refused(postgresAt(user)), /^store_unavailable: .*ALTER ROLE .* 'read committed'/)
    await query(database.url, `ALTER ROLE ${user.name} RESET default_transaction_isolation`)
    await works(user.url)
  })

  it('with a database that is not in UTF-8', async (t) => {
    const { url } = await aDatabase().then(async (other) => {
      await other.drop()
      const [{ major }] = (await query(
        postgresUrl(),
        `SELECT current_setting('server_version_num')::int / 10000 AS major`,
      )) as [{ major: number }]
      const locale = major < 15 ? `LOCALE 'C'` : `LOCALE 'C' LOCALE_PROVIDER libc`
      await query(postgresUrl(), `CREATE DATABASE ${other.name} ENCODING 'SQL_ASCII' ${locale} TEMPLATE template0`)
      t.after(() => other.drop())
      return other
    })
    assert.match(await refused(postgresAt({ url })), /^store_unavailable: .*encoding SQL_ASCII.*ENCODING 'UTF8'/)
  })

  it('with another key than the first', async (t) => {
    const place = await aSchema()
    t.after(() => place.drop())
    await works(place.url)
    const schema = { url: changed(place.url, (url) => url.searchParams.delete('schema')), schema: place.name }
    const other = postgresDatabase(schema, Buffer.alloc(32, 8))
    assert.match(await refused(other), /^store_wrong_key: .*set POSTHORN_ENCRYPTION_KEY/)
    const none = postgresDatabase(schema, null)
    await assert.rejects(async () => none.open(listener), /POSTHORN_ENCRYPTION_KEY is not set/)
    assert.equal(testKey.length, 32)
  })

  it('with a database of a newer Posthorn', async (t) => {
    const place = await aSchema()
    t.after(() => place.drop())
    await works(place.url)
    await query(place.url, `INSERT INTO migrations (version, name) VALUES (9999, 'later')`)
    assert.match(await refused(postgresAt(place)), /^store_too_new: .*version 9999.*use a newer Posthorn/)
  })

  it('with a server that is too old', async () => {
    const row = [140_000, '14.0', 'UTF8', false, 'read committed', 'off', 'on', 'on', 'on', 'posthorn']
    const saying = (place: number, value: unknown) => {
      const client = { query: async () => ({ rows: [row.with(place, value as never)] }) }
      return inspectServer(client as unknown as Client)
    }
    assert.equal((await saying(0, 140_000)).refusal, null)
    assert.match((await saying(0, 130_011)).refusal?.message ?? '', /needs Postgres 14 or newer/)
    assert.match((await saying(6, 'off')).warnings[0] ?? '', /fsync is off/)
  })
})

describe('opening works', limits, () => {
  it('for two processes, and ten, that make the same schema at once', async (t) => {
    const place = await aDatabase()
    t.after(() => place.drop())
    const stores = await Promise.all(Array.from({ length: 10 }, () => openPostgres(place)))
    const endpoint = await withEndpoint(stores[0]!)
    await Promise.all(stores.map((store) => store.append([anArrival(endpoint)])))
    assert.deepEqual(await query(place.url, 'SELECT count(*)::int FROM posthorn.events'), [{ count: 10 }])
    for (const store of stores) await store.close()
  })

  it('through PgBouncer in transaction mode, for two members', { skip: noPgBouncer() ?? false }, async (t) => {
    const place = await aSchema()
    t.after(() => place.drop())
    const bouncer = await aPgBouncer(t, { postgresUrl: postgresUrl(), settings: { default_pool_size: 4 } })
    const url = changed(place.url, (target) => {
      target.port = String(bouncer.port)
      target.hostname = '127.0.0.1'
    })
    const [a, b] = [await openPostgres({ url }), await openPostgres({ url })]
    try {
      const endpoint = await withEndpoint(a)
      const source = aSource()
      assert.equal(await b.putEntry('source', source, 0), 1)
      assert.deepEqual((await a.listEntries('source'))[0]?.item, source)
      const inLane = { delivery: { lane: 'key:a' } }
      const arrivals = Array.from({ length: 40 }, (_, at) => anArrival(endpoint, at % 2 === 0 ? inLane : {}))
      await Promise.all(arrivals.map((arrival, at) => (at % 2 === 0 ? a : b).append([arrival])))
      const taken: string[] = []
      for (;;) {
        const answers = await Promise.all([a, b].map((store) => claimDue(store, endpoint, { now: t0 + 999 })))
        const claims = answers.flatMap((answer) => answer.claims)
        if (claims.length === 0) break
        taken.push(...claims.map(({ delivery }) => delivery.id))
        await Promise.all(claims.map((claim, at) => (at % 2 === 0 ? a : b).commit([delivered(claim)])))
      }
      assert.equal(new Set(taken).size, 40)
      assert.equal(taken.length, 40)
      const [idA, idB] = [(await a.join()).id, (await b.join()).id]
      assert.deepEqual((await a.beat()).members, [idA, idB])
      // Its server goes, and it stays.
      await query(postgresUrl(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`, [
        `posthorn ${place.name}`,
      ])
      const born = { delivery: { leaseEndsAt: lease } }
      const again = await a.append([anArrival(endpoint, born)]).catch(() => a.append([anArrival(endpoint, born)]))
      assert.equal(again.kind, 'kept')
    } finally {
      await a.close()
      await b.close()
    }
  })
})

describe('a server of its own', { skip: noOwnPostgres() ?? false, timeout: 60_000 }, () => {
  it('that is full of connections says so, also later, and goes on when there is room', async (t) => {
    const postgres = await anOwnPostgres(t, {
      settings: { ...notDurable, max_connections: 20, superuser_reserved_connections: 0 },
    })
    const store = await openPostgres(postgres)
    const endpoint = await withEndpoint(store)
    const { default: pg } = await import('pg')
    const others: Client[] = []
    for (;;) {
      const other = new pg.Client(postgres.url)
      other.on('error', () => {})
      const isIn = await other.connect().then(
        () => true,
        () => false,
      )
      if (!isIn) break
      others.push(other)
    }
    assert.match(await refused(postgresAt(postgres)), /^store_unavailable: .*raise max_connections or use PgBouncer/)
    // It has what it needs, and what it needs more of waits for others to go.
    assert.equal((await store.append([anArrival(endpoint)])).kind, 'kept')
    await assert.rejects(
      Promise.all(Array.from({ length: 4 }, () => store.backlog(t0)).concat(store.stats() as never)),
      /raise max_connections/,
    )
    for (const other of others) await other.end()
    assert.equal((await claimDue(store, endpoint)).claims.length, 1)
    await works(postgres.url)
    await store.close()
  })

  it('that wants TLS says how to ask for it, and takes what comes so', async (t) => {
    const postgres = await anOwnPostgres(t, { settings: notDurable })
    const authority = await encrypt(postgres)
    assert.match(await refused(postgresAt(postgres)), /^store_unavailable: .*wants TLS.*sslmode=/)
    const strict = changed(postgres.url, (url) => url.searchParams.set('sslmode', 'verify-full'))
    assert.match(await refused(postgresAt({ url: strict })), /^store_unavailable: .*certificate.*sslrootcert/)
    await works(changed(strict, (url) => url.searchParams.set('sslrootcert', authority)))
    await works(changed(postgres.url, (url) => url.searchParams.set('sslmode', 'no-verify')))
  })

  it('that has no TLS says so to who asks for it', async () => {
    const url = changed(postgresUrl(), (target) => target.searchParams.set('sslmode', 'verify-full'))
    assert.match(await refused(postgresAt({ url })), /^store_unavailable: .*has no TLS.*sslmode=disable/)
  })
})

/** From then on it takes connections with TLS only; answers where the certificate of the authority is. */
async function encrypt(postgres: Service): Promise<string> {
  const data = path.join(postgres.folder, 'data')
  const { uid, gid } = statSync(path.join(data, 'pg_hba.conf'))
  const authority = makeCertificate({ name: 'Test authority', isAuthority: true })
  const { cert, key } = makeCertificate({ name: 'localhost', hosts: ['127.0.0.1', 'localhost'], issuer: authority })
  for (const [name, text] of [
    ['server.crt', cert],
    ['server.key', key],
    ['authority.crt', authority.cert],
  ] as const) {
    writeFileSync(path.join(data, name), text, { mode: 0o600 })
    chownSync(path.join(data, name), uid, gid)
  }
  const rules = path.join(data, 'pg_hba.conf')
  writeFileSync(rules, readFileSync(rules, 'utf8').replaceAll(/^host\s/gm, 'hostssl '))
  await query(postgres.url, 'ALTER SYSTEM SET ssl = on')
  await query(postgres.url, 'SELECT pg_reload_conf()')
  while (await isOpen(postgres.url)) {}
  return path.join(data, 'authority.crt')
}

function isOpen(url: string): Promise<boolean> {
  return query(url, 'SELECT 1').then(
    () => true,
    () => false,
  )
}
