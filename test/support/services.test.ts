import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import path from 'node:path'
import { describe, it } from 'node:test'
import { createClient } from 'redis'
import { anOwnKafka, aTopicPrefix, kafkaBrokers, kafkaClientFolder, noKafka, noOwnKafka } from './kafka.ts'
import { Kcat } from './kcat.ts'
import {
  aDatabase,
  anOwnPostgres,
  aPgBouncer,
  aSchema,
  noOwnPostgres,
  noPgBouncer,
  noPostgres,
  notDurable,
  query,
} from './postgres.ts'
import { aKeyPrefix, anOwnRedis, noOwnRedis, noRedis } from './redis.ts'

describe('the shared PostgreSQL', { skip: noPostgres() ?? false }, () => {
  it('gives each test a schema of its own', async () => {
    await using mine = await aSchema()
    await using other = await aSchema()
    await query(mine.url, 'create table things (id int)')
    await query(other.url, 'create table things (id int)')
    await query(mine.url, 'insert into things values ($1)', [7])
    assert.deepEqual(await query(mine.url, 'select id from things'), [{ id: 7 }])
    assert.deepEqual(await query(other.url, 'select id from things'), [])
  })

  it('drops a schema with all that is in it', async () => {
    const schema = await aSchema()
    await query(schema.url, 'create table things (id int)')
    await schema.drop()
    await schema.drop()
    assert.deepEqual(await query(schema.url, 'select from pg_namespace where nspname = $1', [schema.name]), [])
  })

  it('drops a database although somebody is connected', async () => {
    const database = await aDatabase()
    const sleeping = assert.rejects(query(database.url, 'select pg_sleep(60)'))
    assert.deepEqual(await query(database.url, 'select current_database() as name'), [{ name: database.name }])
    await database.drop()
    await sleeping
    await assert.rejects(query(database.url, 'select 1'), /does not exist/)
  })
})

describe('a PostgreSQL of its own', { skip: noOwnPostgres() ?? false }, () => {
  it('keeps what is committed through kill -9', async (t) => {
    const postgres = await anOwnPostgres(t)
    const [durable] = await query(postgres.url, `select current_setting('fsync') as fsync`)
    assert.deepEqual(durable, { fsync: 'on' })
    await query(postgres.url, 'create table things (id int)')
    await query(postgres.url, 'insert into things values (1)')
    const killed = postgres.pid
    await postgres.kill()
    await assert.rejects(query(postgres.url, 'select 1'), /ECONNREFUSED/)
    await postgres.start()
    assert.notEqual(postgres.pid, killed)
    assert.deepEqual(await query(postgres.url, 'select id from things'), [{ id: 1 }])
  })

  it('starts again at once while connections of the killed one are busy', async (t) => {
    const postgres = await anOwnPostgres(t, { settings: notDurable })
    const busy = Array.from({ length: 8 }, () =>
      assert.rejects(query(postgres.url, 'select sum(n) from generate_series(1, 1e9) as n')),
    )
    const active = `select from pg_stat_activity where state = 'active' and query like '%generate_series%'`
    while ((await query(postgres.url, active)).length <= busy.length) {}
    await postgres.kill()
    await postgres.start()
    await query(postgres.url, 'select 1')
    await Promise.all(busy)
  })

  it('takes settings', async (t) => {
    const postgres = await anOwnPostgres(t, { settings: { ...notDurable, max_connections: 17, work_mem: '5MB' } })
    const rows = await query(postgres.url, `select name, setting from pg_settings where name in ('fsync', 'work_mem')`)
    assert.deepEqual(rows, [
      { name: 'fsync', setting: 'off' },
      { name: 'work_mem', setting: '5120' },
    ])
  })

  it('refuses a wrong password', async (t) => {
    const postgres = await anOwnPostgres(t, { settings: notDurable })
    const url = new URL(postgres.url)
    url.password = 'guessed'
    await assert.rejects(query(url.href, 'select 1'), { code: '28P01' })
  })

  it('says why it does not start', async (t) => {
    await assert.rejects(anOwnPostgres(t, { settings: { shared_buffers: 'many' } }), /shared_buffers/)
  })

  it('leaves nothing behind', async (t) => {
    const postgres = await anOwnPostgres(t, { settings: notDurable })
    const { pid } = postgres
    await postgres.discard()
    await postgres.discard()
    assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
    assert.equal(existsSync(postgres.folder), false)
  })
})

describe('PgBouncer', { skip: noPgBouncer() ?? noPostgres() ?? false }, () => {
  it('passes transactions on, and refuses a wrong password', async (t) => {
    await using database = await aDatabase()
    const bouncer = await aPgBouncer(t, { postgresUrl: database.url })
    assert.deepEqual(await query(bouncer.url, 'select current_database() as name'), [{ name: database.name }])
    const [pool] = await query(new URL('/pgbouncer', bouncer.url).href, 'show config').then((rows) =>
      rows.filter(({ key }) => key === 'pool_mode'),
    )
    assert.equal(pool?.value, 'transaction')
    const url = new URL(bouncer.url)
    url.password = 'guessed'
    await assert.rejects(query(url.href, 'select 1'), { code: '08P01' })
    await bouncer.restart()
    await query(bouncer.url, 'select 1')
  })
})

describe('the shared Redis', { skip: noRedis() ?? false }, () => {
  it('gives each test keys of its own', async () => {
    const [mine, other] = [aKeyPrefix(), aKeyPrefix()]
    const client = await createClient({ url: mine.url }).connect()
    try {
      await client.set(`${mine.prefix}a`, 1)
      await client.set(`${other.prefix}a`, 2)
      await mine.drop()
      assert.equal(await client.get(`${mine.prefix}a`), null)
      assert.equal(await client.get(`${other.prefix}a`), '2')
    } finally {
      await client.close()
      await other.drop()
    }
  })
})

describe('a Redis of its own', { skip: noOwnRedis() ?? false }, () => {
  it('starts again on its port with what its settings keep', async (t) => {
    const redis = await anOwnRedis(t, { settings: { appendonly: 'yes', appendfsync: 'always' } })
    const client = createClient({ url: redis.url, disableOfflineQueue: true })
    client.on('error', () => {})
    await client.connect()
    t.after(() => client.destroy())
    assert.equal(await client.ping(), 'PONG')
    await client.set('kept', 'yes')
    await redis.kill()
    await redis.start()
    const again = await createClient({ url: redis.url }).connect()
    assert.equal(await again.get('kept'), 'yes')
    await again.close()
  })

  it('ends when the process that started it is killed', async () => {
    const starter = spawn(process.execPath, [path.join(import.meta.dirname, 'services', 'redis-starter.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [port] = await once(starter.stdout, 'data')
    const connection = connect(Number(port), '127.0.0.1')
    await once(connection, 'connect')
    const ended = new Promise((resolve) => connection.on('error', () => {}).once('close', resolve))
    starter.kill('SIGKILL')
    await ended
  })
})

describe('the shared Kafka', { skip: noKafka() ?? false }, () => {
  it('comes with a client for this Node, and makes no topic by itself', async () => {
    const require = createRequire(path.join(kafkaClientFolder(), 'index.js'))
    assert.equal(typeof require('@confluentinc/kafka-javascript').KafkaConsumer, 'function')
    await assert.rejects(new Kcat(kafkaBrokers()).records(`${aTopicPrefix()}none`), /Unknown topic/)
  })
})

describe('a Kafka of its own', { skip: noOwnKafka() ?? false }, () => {
  const settings = { 'auto.create.topics.enable': 'true', 'num.partitions': 1 }

  it('keeps records and commits through kill -9 and SIGTERM, on its port', async (t) => {
    const kafka = await anOwnKafka(t, { settings })
    const kcat = new Kcat(kafka.url)
    const headers = [
      ['trace', 'a=b'],
      ['trace', 'c'],
    ] as const
    await kcat.produce({ topic: 'orders', headers, records: [['k', 'one']] })
    await kafka.kill()
    await kafka.start()
    await kcat.produce({ topic: 'orders', records: [['', 'two']] })
    await kcat.consumeAs('readers', 'orders', 1)
    await kafka.restart()
    const [first, second] = await kcat.records('orders')
    assert.deepEqual(
      { ...first, ts: 0 },
      {
        ...{ topic: 'orders', partition: 0, offset: 0, broker: 1, tstype: 'create', ts: 0 },
        ...{ key: 'k', payload: 'one', headers: ['trace', 'a=b', 'trace', 'c'] },
      },
    )
    assert.ok(Math.abs(first!.ts - Date.now()) < 60_000)
    assert.deepEqual([second?.key, second?.payload, second?.headers], [null, 'two', undefined])
    const committed = await kcat.committed('readers', 'orders')
    assert.deepEqual(
      [...committed.values()].map(({ partition, offset }) => [partition, offset]),
      [[0, 1]],
    )
  })

  it('lets in only its users, when it has some', async (t) => {
    const kafka = await anOwnKafka(t, { settings, users: { ada: 'secret' } })
    const login = (password: string) => [
      ...['security.protocol=SASL_PLAINTEXT', 'sasl.mechanism=PLAIN', 'sasl.username=ada'],
      `sasl.password=${password}`,
    ]
    await new Kcat(kafka.url, login('secret')).produce({ topic: 'orders', records: [['k', 'v']] })
    await assert.rejects(new Kcat(kafka.url, login('guessed')).records('orders'), /Authentication failed/)
  })
})
