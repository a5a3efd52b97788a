import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { openPosthorn, type Posthorn } from '../../src/index.ts'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { committedOf } from '../support/consumer-scene.ts'
import { eventually } from '../support/eventually.ts'
import { kafkaBrokers, kafkaClientFolder, noKafka } from '../support/kafka.ts'
import { tempFolder } from '../support/sqlite.ts'

const module = new URL('../support/count-records.ts', import.meta.url)

async function opened(t: TestContext, folder: string, kafka: object = {}): Promise<Posthorn> {
  const posthorn = await openPosthorn({ database: `sqlite:${join(folder, 'p.db')}`, logLevel: 'silent', ...kafka })
  t.after(() => posthorn.close())
  return posthorn
}

async function folderFor(t: TestContext): Promise<string> {
  const { path, remove } = await tempFolder()
  t.after(remove)
  return path
}

describe('posthorn.consumer', () => {
  test('names every option that is wrong', async (t) => {
    const posthorn = await opened(t, await folderFor(t), { kafkaBrokers: '127.0.0.1:1' })
    const wrong = {
      topics: 'a b',
      group: ' g',
      concurrency: 0,
      dlq: 'nowhere',
      retry: 'consumer',
      maxRetries: 2,
      oredring: 'key',
      handler: () => {},
    }
    assert.throws(
      () => posthorn.consumer(wrong as never),
      ({ message }: Error) =>
        ['topics', 'group', 'concurrency', "dlq must be 'topic' or false", 'oredring', 'ordering'].every((text) =>
          message.includes(text),
        ),
    )
    const both = { topics: 'a', group: 'g', handler: () => {}, retry: 'consumer', maxRetries: 2 } as const
    assert.throws(() => posthorn.consumer(both), { message: /retry cannot be given together with maxRetries/ })
    const inProcess = { topics: 'a', group: 'g', handler: () => {}, engine: 'process' } as const
    assert.throws(() => posthorn.consumer(inProcess), { message: /engine 'process' runs modules/ })
  })

  test('says what is missing: the brokers, the client, a broker that answers', async (t) => {
    const options = { topics: 'orders', group: 'billing', handler: () => {} }
    const bare = await opened(t, await folderFor(t))
    assert.throws(() => bare.consumer(options), { message: /needs a broker: set POSTHORN_KAFKA_BROKERS/ })
    const nowhere = await opened(t, await folderFor(t), { kafkaBrokers: '127.0.0.1:1' })
    const consumer = nowhere.consumer(options)
    await assert.rejects(consumer.ready, ({ message }: Error) => /kafka-javascript|127\.0\.0\.1:1/.test(message))
    assert.equal(consumer.snapshot(), null)
  })

  describe('with a broker', { skip: noKafka() ?? false }, () => {
    const scene = () => kafkaScene(openConfluent(kafkaClientFolder()), kafkaBrokers())
    const kafka = () => ({ kafkaBrokers: kafkaBrokers(), kafkaClient: kafkaClientFolder() })

    test('runs a function over records, and has committed what it did when it is closed', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const group = `${topic}.group`
      const folder = await folderFor(t)
      const posthorn = await opened(t, folder, kafka())
      const seen: unknown[] = []
      const consumer = posthorn.consumer({ topics: topic, group, handler: (record) => void seen.push(record.json()) })
      await consumer.ready
      await it.kcat.produce({
        topic,
        partition: 0,
        records: [
          ['a', '{"n":1}'],
          ['a', '{"n":2}'],
        ],
      })
      await eventually('both are processed', async () => (seen.length === 2 ? true : null))
      await posthorn.close()
      assert.deepEqual(seen, [{ n: 1 }, { n: 2 }])
      assert.equal(await committedOf(it, topic, 0), 2)
      assert.throws(() => posthorn.consumer({ topics: topic, group, handler: () => {} }), { code: 'shutting_down' })
    })

    test('recognises a copy by its key and its topic', async (t) => {
      const it = scene()
      const [orders, payments] = [await it.aTopic(t, 1), await it.aTopic(t, 1)]
      const posthorn = await opened(t, await folderFor(t), kafka())
      const seen: string[] = []
      const { ready } = posthorn.consumer({
        topics: [orders, payments],
        group: `${orders}.group`,
        dedup: 'key',
        handler: (record) => void seen.push(record.topic),
      })
      await ready
      for (const topic of [orders, payments, orders]) await it.kcat.produce({ topic, records: [['42', 'x']] })
      const committed = () => Promise.all([committedOf(it, orders), it.kcat.committed(`${orders}.group`, payments)])
      await eventually('all are committed', async () => {
        const [ofOrders, ofPayments] = await committed()
        return ofOrders === 2 && ofPayments.get(0)?.offset === 1 ? true : null
      })
      assert.deepEqual(seen.sort(), [orders, payments].sort())
    })

    test('runs a module in processes: a record that kills them is a dead letter, and the others are unharmed', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const folder = await folderFor(t)
      const to = join(folder, 'processed')
      const records: [string, string][] = Array.from({ length: 30 }, (_, n) => [`k${n}`, n === 7 ? 'die' : `${n}`])
      await it.kcat.produce({ topic, headers: [['to', to]], records })
      const posthorn = await opened(t, folder, kafka())
      const consumer = posthorn.consumer({
        topics: [topic],
        group: `${topic}.group`,
        handler: module,
        engine: 'process',
        workers: 2,
        retryBackoffMs: 10,
        retryJitterMs: 0,
      })
      await eventually('the group has committed', async () => ((await committedOf(it, topic)) === 30 ? true : null))
      const lines = readFileSync(to, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      assert.deepEqual(
        lines.map(({ offset }) => offset).sort((a, b) => a - b),
        records.flatMap((_, n) => (n === 7 ? [] : [n])),
      )
      assert.ok(lines.every(({ pid }) => pid !== process.pid))
      const [letter] = await it.kcat.records(`${topic}.dlq`)
      assert.equal(letter?.payload, 'die')
      assert.ok(letter?.headers?.some((text) => text.includes('exited with code 3')))
      assert.equal(consumer.snapshot()?.tally.deadLetters, 1)
    })
  })
})
