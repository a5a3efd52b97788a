import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import type { KafkaMessage } from '../../src/kafka/driver.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { eventually } from '../support/eventually.ts'
import { anOwnKafka, kafkaClientFolder, noOwnKafka } from '../support/kafka.ts'
import { Member } from '../support/kafka-member.ts'
import type { Service } from '../support/services/service.ts'

function sceneOf(kafka: Service) {
  return kafkaScene(openConfluent(kafkaClientFolder()), kafka.url)
}

function numbered(topic: string, from: number, to: number): readonly KafkaMessage[] {
  const message = { topic, partition: 0, key: null, headers: [], timestamp: null }
  return Array.from({ length: to - from }, (_, at) => ({ ...message, value: Buffer.from(`${from + at}`) }))
}

describe('the Kafka driver', { skip: noOwnKafka() ?? false }, () => {
  test('goes on when a broker that was killed is back: nothing acknowledged is lost, and commits say the truth', async (t) => {
    const kafka = await anOwnKafka(t)
    const { driver, brokers, kcat, aTopic } = sceneOf(kafka)
    const topic = await aTopic(t, 1)
    const group = 'readers'
    const settings = { 'heartbeat.interval.ms': 100 }
    const options = { brokers, topics: [topic], group, protocol: 'classic', start: 'earliest', settings } as const
    const member = await Member.open(t, driver, options)
    const producer = await driver.openProducer({ brokers, messageMsMax: 60_000 })
    t.after(() => producer.close())
    await producer.send(numbered(topic, 0, 10))
    await member.untilRecords(10)
    await member.consumer.commit([{ topic, partition: 0, offset: 5, metadata: 'before' }])

    await kafka.kill()
    const sending = producer.send(numbered(topic, 10, 20))
    const committing = member.consumer
      .commit([{ topic, partition: 0, offset: 10, metadata: 'while away' }])
      .then(() => true)
      .catch(() => false)
    await member.untilProblem('unreachable')
    await kafka.start()

    const sent = await sending
    assert.deepEqual(
      sent.map((answer) => answer.kind === 'acknowledged' && answer.offset),
      Array.from({ length: 10 }, (_, at) => 10 + at),
    )
    await eventually('all records have come', async () => (new Set(member.of(0)).size === 20 ? true : null))
    const wasKept = (await kcat.commits(group)).some(({ metadata }) => metadata === 'while away')
    if (await committing) assert.ok(wasKept)
    // A partition may be taken away and given back while the group finds together again.
    await eventually('commits are kept again', async () => {
      const commit = { topic, partition: 0, offset: 20, metadata: 'after' }
      return member.consumer.commit([commit]).then(
        () => true,
        () => null,
      )
    })
    assert.equal((await kcat.committed(group, topic)).get(0)?.metadata, 'after')
  })

  test('closes while no broker answers, and then nothing is without an answer', async (t) => {
    const kafka = await anOwnKafka(t)
    const { driver, brokers, aTopic } = sceneOf(kafka)
    const topic = await aTopic(t, 1)
    const options = { brokers, topics: [topic], group: 'readers', protocol: 'consumer', start: 'earliest' } as const
    const member = await Member.open(t, driver, options)
    await member.untilMine(1)
    const producer = await driver.openProducer({ brokers, messageMsMax: 60_000 })
    await kafka.kill()
    const sending = producer.send(numbered(topic, 0, 3))
    const committing = assert.rejects(
      member.consumer.commit([{ topic, partition: 0, offset: 1, metadata: '' }]),
      /could not be committed/,
    )
    await Promise.all([member.close(), producer.close(0)])
    await committing
    const answers = await sending
    assert.deepEqual(
      answers.map((answer) => answer.kind === 'failed' && answer.error.kind),
      ['closed', 'closed', 'closed'],
    )
    assert.deepEqual(member.events.slice(-1), ['gave up 0'])
  })

  test('logs in by the settings that it is given, and says when it is not let in', async (t) => {
    const kafka = await anOwnKafka(t, { users: { ada: 'secret' } })
    const { driver } = sceneOf(kafka)
    const optionsWith = (password: string) => ({
      ...{ brokers: kafka.url, messageMsMax: 10_000 },
      ...({ topics: ['orders'], group: 'readers', protocol: 'classic', start: 'earliest' } as const),
      settings: {
        'security.protocol': 'sasl_plaintext',
        'sasl.mechanism': 'PLAIN',
        'sasl.username': 'ada',
        'sasl.password': password,
      },
    })
    const producer = await driver.openProducer(optionsWith('secret'))
    await producer.close()
    const refusal = { kind: 'unauthorized', message: new RegExp(`^Kafka at ${kafka.url} does not let us in`) }
    const owner = { assigned: async () => {}, revoked: async () => {}, lost: () => {} }
    await assert.rejects(driver.openProducer(optionsWith('guessed')), refusal)
    await assert.rejects(driver.openConsumer(optionsWith('guessed'), owner), refusal)
    await assert.rejects(driver.openProducer({ ...optionsWith('secret'), settings: { 'sasl.user': 'ada' } }), {
      code: 'config_invalid',
      message: /sasl\.user/,
    })
  })
})
