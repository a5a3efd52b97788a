import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import { fatal } from '../../src/core/handler-errors.ts'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { aConsumer, committedOf, untilCommitted } from '../support/consumer-scene.ts'
import { eventually } from '../support/eventually.ts'
import { kafkaBrokers, kafkaClientFolder, noKafka } from '../support/kafka.ts'

const scene = () => kafkaScene(openConfluent(kafkaClientFolder()), kafkaBrokers())
const textOf = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString())
const numbered = (count: number, keys = 1): [string, string][] =>
  Array.from({ length: count }, (_, n) => [`key-${n % keys}`, `${n}`])

describe('a record that cannot be processed', { skip: noKafka() ?? false }, () => {
  test('makes a dead letter of what fails as often as the policy allows, and commits when the broker has it', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    const headers = [
      ['trace', 'a'],
      ['trace', 'b'],
      ['offset', 'the sender’s own'],
    ] as const
    await it.kcat.produce({
      topic,
      headers,
      records: [
        ['k', 'poison'],
        ['l', 'fine'],
      ],
    })
    const attempts: number[] = []
    const { consumer, logged } = await aConsumer(t, it, {
      topic,
      handler: ({ value }, { attempt }) => {
        if (textOf(value) !== 'poison') return
        attempts.push(attempt)
        throw new TypeError('it is bad')
      },
    })
    await untilCommitted(it, topic, [2])
    assert.deepEqual(attempts, [1, 2, 3])
    const [letter, ...more] = await it.kcat.records(`${topic}.dlq`)
    assert.deepEqual(more, [])
    const [record] = await it.kcat.records(topic)
    assert.deepEqual([letter?.key, letter?.payload, letter?.ts], ['k', 'poison', record?.ts])
    const pairs = pairsOf(letter?.headers ?? [])
    assert.match(pairs.find(([name]) => name === 'x-failed-at')?.[1] ?? '', /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    assert.deepEqual(
      pairs.filter(([name]) => name !== 'x-failed-at'),
      [
        ['trace', 'a'],
        ['trace', 'b'],
        ['x-original-header-offset', 'the sender’s own'],
        ['x-error-reason', 'TypeError: it is bad'],
        ['x-retry-attempt', '3'],
        ['source-topic', topic],
        ['partition', '0'],
        ['offset', '0'],
        ['epoch', '1'],
        ['x-error-class', 'TypeError'],
        ['x-error-kind', 'exhausted'],
        ['x-consumer-group', `${topic}.group`],
      ],
    )
    const { deadLetters, processed } = consumer.snapshot().tally
    assert.deepEqual([deadLetters, processed], [1, 1])
    const line = logged.find(({ event }) => event === 'record.dead_letter')?.facts
    assert.deepEqual([line?.topic, line?.offset, line?.attempts, line?.error], [topic, 0, 3, 'TypeError: it is bad'])
    assert.match(String(line?.stack), /dead-letters\.test/)
  })

  test('makes a dead letter of a fatal failure at once, and of a value that is not JSON', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({
      topic,
      records: [
        ['a', 'x'],
        ['b', '{oops'],
      ],
    })
    const { consumer } = await aConsumer(t, it, {
      topic,
      handler: (record) => {
        if (textOf(record.value) === 'x') throw fatal('never')
        record.json()
      },
    })
    await untilCommitted(it, topic, [2])
    assert.equal(consumer.snapshot().tally.attempts, 2)
    const letters = await it.kcat.records(`${topic}.dlq`)
    assert.deepEqual(letters.map(({ payload }) => payload).sort(), ['x', '{oops'])
  })

  test('counts a timeout as an attempt', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: [['a', 'slow']] })
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { timeoutMs: 100, ordering: 'none' },
      handler: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)),
    })
    await untilCommitted(it, topic, [1])
    assert.equal(consumer.snapshot().tally.attempts, 3)
    const [letter] = await it.kcat.records(`${topic}.dlq`)
    assert.ok(pairsOf(letter?.headers ?? []).some(([, value]) => value === 'the handler did not end within 100ms'))
  })

  test('holds the offset while a dead letter cannot be written, says so, and goes on by itself', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({
      topic,
      records: [
        ['a', 'poison'],
        ['b', 'fine'],
      ],
    })
    let isDown = true
    const { consumer, logged } = await aConsumer(t, it, {
      topic,
      deadLetters: {
        put: async () => {
          if (isDown) throw new Error('the broker refuses it')
        },
      },
      handler: ({ value }) => {
        if (textOf(value) === 'poison') throw fatal('never')
      },
    })
    await eventually('it is blocked', async () => consumer.snapshot().partitions[0]?.blocked ?? null)
    assert.equal(consumer.snapshot().partitions[0]?.blocked, 'the broker refuses it')
    await eventually('the other is processed', async () => (consumer.snapshot().tally.processed === 1 ? true : null))
    assert.equal(await committedOf(it, topic), 0)
    assert.ok(logged.some(({ event }) => event === 'consumer.blocked'))
    isDown = false
    await untilCommitted(it, topic, [2])
    assert.equal(consumer.snapshot().partitions[0]?.blocked, null)
  })

  test('without dead letters logs, counts and passes what cannot be processed', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: [['a', 'x']] })
    const { consumer, logged } = await aConsumer(t, it, {
      topic,
      deadLetters: null,
      handler: () => {
        throw fatal('never')
      },
    })
    await untilCommitted(it, topic, [1])
    assert.equal(consumer.snapshot().tally.skipped, 1)
    assert.ok(logged.some(({ event, facts }) => event === 'record.skipped' && facts.offset === 0))
  })

  test('holds everything instead of emptying a topic into dead letters', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: numbered(30, 30) })
    let isBroken = true
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { budget: { share: 0.5, window: 10 }, concurrency: 1 },
      handler: () => {
        if (isBroken) throw fatal('a bad deployment')
      },
    })
    await eventually('it is held', async () => consumer.snapshot().hold)
    assert.equal(consumer.snapshot().hold?.reason, 'budget')
    await eventually('five are kept', async () => (consumer.snapshot().tally.deadLetters === 5 ? true : null))
    assert.equal((await it.kcat.records(`${topic}.dlq`)).length, 5)
    isBroken = false
    consumer.resume()
    await untilCommitted(it, topic, [30])
    assert.deepEqual([consumer.snapshot().tally.processed, consumer.snapshot().tally.deadLetters], [25, 5])
  })

  test('stays held although attempts that began before succeed', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: numbered(30, 30) })
    const slow = Promise.withResolvers<void>()
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { budget: { share: 0.5, window: 10 }, concurrency: 2 },
      handler: ({ offset }) => {
        if (offset === 0) return slow.promise
        throw fatal('a bad deployment')
      },
    })
    const hold = await eventually('it is held', async () => consumer.snapshot().hold)
    slow.resolve()
    await eventually('the slow one is done', async () => (consumer.snapshot().tally.processed === 1 ? true : null))
    await eventually('five are kept', async () => (consumer.snapshot().tally.deadLetters === 5 ? true : null))
    assert.deepEqual(consumer.snapshot().hold, hold)
  })

  test('a record that is skipped while its dead letter is written ends once', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({
      topic,
      records: [
        ['a', 'poison'],
        ['a', 'one'],
        ['a', 'two'],
      ],
    })
    const kept = Promise.withResolvers<void>()
    const seen: string[] = []
    const { consumer } = await aConsumer(t, it, {
      topic,
      deadLetters: { put: () => kept.promise },
      handler: ({ value }) => {
        if (textOf(value) === 'poison') throw fatal('never')
        seen.push(textOf(value) ?? '')
      },
    })
    await eventually('it is written', async () =>
      consumer.snapshot().partitions[0]?.records.writing === 1 ? true : null,
    )
    const passOver = consumer.skip.bind(consumer)
    const both = await Promise.all([passOver({ topic, partition: 0 }, 0), passOver({ topic, partition: 0 }, 0)])
    kept.resolve()
    await untilCommitted(it, topic, [3])
    assert.deepEqual(both, [true, false])
    assert.deepEqual(seen, ['one', 'two'])
    const { skipped, deadLetters, processed } = consumer.snapshot().tally
    assert.deepEqual([skipped, deadLetters, processed], [1, 0, 2])
  })
})

function pairsOf(headers: readonly string[]): [string, string][] {
  return headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? ''] as [string, string]] : []))
}
