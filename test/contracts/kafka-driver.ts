import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { KafkaDriver, KafkaMessage, KafkaProducer } from '../../src/kafka/driver.ts'
import { eventually } from '../support/eventually.ts'
import { aTopicPrefix, kafkaBrokers } from '../support/kafka.ts'
import { Kcat } from '../support/kcat.ts'
import { kafkaConsumerContract } from './kafka-consumer.ts'

/** A broker, and what looks at it: the driver, and `kcat` as a witness that knows nothing of it. */
export type KafkaScene = Readonly<{
  driver: KafkaDriver
  brokers: string
  kcat: Kcat
  /** Creates a topic of the test's own, which goes when the test ends. */
  aTopic(t: TestContext, partitions: number, settings?: Readonly<Record<string, string>>): Promise<string>
}>

export function kafkaScene(driver: KafkaDriver, brokers: string): KafkaScene {
  const aTopic: KafkaScene['aTopic'] = async (t, partitions, settings = {}) => {
    const admin = driver.openAdmin({ brokers })
    const topic = `${aTopicPrefix()}topic`
    await admin.createTopics([{ topic, partitions, settings }])
    // The broker tells it a moment later than it answers.
    const isThere = async () => ((await admin.partitionCounts([topic])).has(topic) ? true : null)
    await eventually('the topic is there', isThere)
    t.after(async () => {
      await admin.deleteTopics([topic]).catch(() => {})
      admin.close()
    })
    return topic
  }
  return { driver, brokers, kcat: new Kcat(brokers), aTopic }
}

const bytes = (text: string) => new TextEncoder().encode(text)

function message(topic: string, value: string | null, more: Partial<KafkaMessage> = {}): KafkaMessage {
  const plain = { topic, partition: null, key: null, headers: [], timestamp: null }
  return { ...plain, value: value === null ? null : bytes(value), ...more }
}

async function aProducer(t: TestContext, { driver, brokers }: KafkaScene, lingerMs = 0): Promise<KafkaProducer> {
  const producer = await driver.openProducer({ brokers, messageMsMax: 120_000, lingerMs })
  t.after(() => producer.close())
  return producer
}

/** The promises of the port: every adapter passes this suite unchanged. */
export function kafkaDriverContract(name: string, open: () => KafkaDriver): void {
  kafkaConsumerContract(name, () => kafkaScene(open(), kafkaBrokers()))
  producerContract(name, () => kafkaScene(open(), kafkaBrokers()))
  adminContract(name, () => kafkaScene(open(), kafkaBrokers()))
}

function producerContract(name: string, scene: () => KafkaScene): void {
  describe(`${name}: producer`, () => {
    test('says where each message was kept, in the order of each partition', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 4)
      const producer = await aProducer(t, it)
      const texts = Array.from({ length: 60 }, (_, at) => `text ${at}`)
      const messages = texts.map((text, at) => message(topic, text, { key: bytes(`key ${at % 7}`) }))
      const sent = await Promise.all([producer.send(messages.slice(0, 25)), producer.send(messages.slice(25))])
      const kept = new Map((await it.kcat.records(topic)).map((record) => [record.payload, record]))
      for (const [at, produced] of sent.flat().entries()) {
        const { partition, offset } = kept.get(texts[at]!)!
        assert.deepEqual(produced, { kind: 'acknowledged', topic, partition, offset })
      }
      const ofOneKey = texts.filter((_, at) => at % 7 === 3).map((text) => kept.get(text)!)
      assert.equal(new Set(ofOneKey.map(({ partition }) => partition)).size, 1)
      assert.deepEqual(
        ofOneKey.map(({ offset }) => offset),
        ofOneKey.map(({ offset }) => offset).sort((a, b) => a - b),
      )
    })

    test('finds partitions by keys as clients in Java do, and takes the one that it is given', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 5)
      const producer = await aProducer(t, it)
      // Their hashes stand in Kafka's own tests: of the key "21" it is -973932308, of "foobar" -790332482.
      const [byKey, byOther, given] = await producer.send([
        message(topic, 'a', { key: bytes('21') }),
        message(topic, 'b', { key: bytes('foobar') }),
        message(topic, 'c', { key: bytes('21'), partition: 1 }),
      ])
      const partitionOf = (hash: number) => (hash & 0x7fffffff) % 5
      assert.deepEqual(
        [byKey, byOther, given].map((produced) => produced?.kind === 'acknowledged' && produced.partition),
        [partitionOf(-973932308), partitionOf(-790332482), 1],
      )
    })

    test('is read by others: key, headers, timestamp and tombstone', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const producer = await aProducer(t, it)
      const headers = [
        ['trace', bytes('one')],
        ['trace', bytes('two')],
      ] as const
      const timestamp = Date.now() - 60_123
      const whole = message(topic, 'v', { key: bytes('k'), headers, timestamp })
      const sent = await producer.send([whole, message(topic, null)])
      assert.deepEqual(
        sent.map(({ kind }) => kind),
        ['acknowledged', 'acknowledged'],
      )
      const [full, tombstone] = await it.kcat.records(topic)
      assert.deepEqual(
        [full?.key, full?.payload, full?.headers, full?.ts],
        ['k', 'v', ['trace', 'one', 'trace', 'two'], timestamp],
      )
      assert.deepEqual([tombstone?.key, tombstone?.payload, tombstone?.headers], [null, null, undefined])
    })

    test('says of each message alone what became of it', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const small = await it.aTopic(t, 1, { 'max.message.bytes': '300' })
      const producer = await aProducer(t, it)
      const answers = await producer.send([
        message(topic, 'first'),
        message(small, 'x'.repeat(500)),
        message(`${topic}.none`, 'lost'),
        message(topic, 'nowhere', { partition: 9 }),
        message(topic, 'last'),
      ])
      assert.deepEqual(
        answers.map((answer) => (answer.kind === 'acknowledged' ? answer.offset : answer.error.kind)),
        [0, 'too_large', 'unknown_topic', 'unknown_topic', 1],
      )
      assert.deepEqual(
        (await it.kcat.records(topic)).map(({ payload }) => payload),
        ['first', 'last'],
      )
      assert.deepEqual(await it.kcat.records(small), [])
      const [after] = await producer.send([message(small, 'y')])
      assert.equal(after?.kind, 'acknowledged')
    })

    test('sends whatever the topic takes, however large', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1, { 'max.message.bytes': '4000000' })
      const producer = await aProducer(t, it)
      const [large, tooLarge] = await producer.send([
        message(topic, 'x'.repeat(3_000_000)),
        message(topic, 'x'.repeat(5_000_000)),
      ])
      assert.equal(large?.kind, 'acknowledged')
      assert.equal(tooLarge?.kind === 'failed' && tooLarge.error.kind, 'too_large')
    })

    test('sends what waits when it is closed, and takes no more', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const producer = await aProducer(t, it, 60_000)
      const sending = producer.send([message(topic, 'waits')])
      await producer.close()
      assert.deepEqual(await sending, [{ kind: 'acknowledged', topic, partition: 0, offset: 0 }])
      await producer.close()
      const [refused] = await producer.send([message(topic, 'late')])
      assert.equal(refused?.kind === 'failed' && refused.error.kind, 'closed')
    })

    test('leaves no message without an answer when it is closed at once', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const producer = await aProducer(t, it, 60_000)
      const sending = producer.send(Array.from({ length: 500 }, (_, at) => message(topic, `text ${at}`)))
      await producer.close(0)
      const kept = await it.kcat.records(topic)
      const answers = await sending
      const acknowledged = answers.filter(({ kind }) => kind === 'acknowledged')
      assert.ok(acknowledged.length <= kept.length)
      for (const answer of answers) assert.ok(answer.kind === 'acknowledged' || answer.error.kind === 'closed')
    })

    test('is not opened where no broker answers, and says so', async () => {
      const { driver } = scene()
      const opening = driver.openProducer({ brokers: '127.0.0.1:1', messageMsMax: 1_000, answerMsMax: 500 })
      await assert.rejects(opening, { kind: 'unreachable', message: /^No Kafka broker answers at 127\.0\.0\.1:1/ })
    })

    test('refuses settings that its promises rest on', async () => {
      const { driver, brokers } = scene()
      const settings = { acks: 1 }
      await assert.rejects(driver.openProducer({ brokers, messageMsMax: 1_000, settings }), /acks/)
    })
  })
}

function adminContract(name: string, scene: () => KafkaScene): void {
  describe(`${name}: admin`, () => {
    test('creates, shows and deletes topics', async (t) => {
      const { driver, brokers, kcat } = scene()
      const admin = driver.openAdmin({ brokers })
      t.after(() => admin.close())
      const [topic, other] = [`${aTopicPrefix()}a`, `${aTopicPrefix()}b`]
      await admin.createTopics([
        { topic, partitions: 3 },
        { topic: other, partitions: 1, settings: { 'cleanup.policy': 'compact' } },
      ])
      await assert.rejects(admin.createTopics([{ topic, partitions: 3 }]), { kind: 'exists' })
      await kcat.produce({ topic, partition: 2, records: [['k', 'v']] })
      const counts = await admin.partitionCounts([topic, `${topic}.none`, other])
      assert.deepEqual(
        [...counts],
        [
          [topic, 3],
          [other, 1],
        ],
      )
      assert.deepEqual(
        await admin.ends([
          { topic, partition: 2 },
          { topic, partition: 0 },
        ]),
        [
          { topic, partition: 2, earliest: 0, latest: 1 },
          { topic, partition: 0, earliest: 0, latest: 0 },
        ],
      )
      await assert.rejects(admin.ends([{ topic: `${topic}.none`, partition: 0 }]), { kind: 'unknown_topic' })
      await admin.deleteTopics([topic, other])
      await assert.rejects(admin.deleteTopics([topic]), { kind: 'unknown_topic' })
      admin.close()
    })

    test('lists groups with what they have committed, and deletes them', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const admin = it.driver.openAdmin({ brokers: it.brokers })
      t.after(() => admin.close())
      const group = `${topic}.group`
      assert.deepEqual(await admin.committed(group), [])
      await it.kcat.produce({
        topic,
        records: [
          ['k', 'v'],
          ['k', 'w'],
        ],
      })
      await it.kcat.consumeAs(group, topic, 2)
      assert.ok((await admin.groups()).includes(group))
      const [committed, ...rest] = await admin.committed(group)
      assert.deepEqual([committed?.topic, committed?.partition, committed?.offset, rest], [topic, 0, 2, []])
      await admin.deleteGroups([group])
      assert.equal((await admin.groups()).includes(group), false)
      await assert.rejects(admin.deleteGroups([group]), { kind: 'unknown_group' })
    })

    test('says that nobody answers', async (t) => {
      const admin = scene().driver.openAdmin({ brokers: '127.0.0.1:1', answerMsMax: 500 })
      t.after(() => admin.close())
      await assert.rejects(admin.partitionCounts(['orders']), { kind: 'unreachable' })
      await assert.rejects(admin.groups(), { kind: 'unreachable' })
    })
  })
}
