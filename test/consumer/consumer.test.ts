import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import { fatal, infrastructure, unavailable } from '../../src/core/handler-errors.ts'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { aConsumer, committedOf, quickRetry, untilCommitted } from '../support/consumer-scene.ts'
import { eventually } from '../support/eventually.ts'
import { kafkaBrokers, kafkaClientFolder, noKafka } from '../support/kafka.ts'

const scene = () => kafkaScene(openConfluent(kafkaClientFolder()), kafkaBrokers())
const textOf = (bytes: Uint8Array | null) => (bytes === null ? null : Buffer.from(bytes).toString())
const numbered = (count: number, keys = 1): [string, string][] =>
  Array.from({ length: count }, (_, n) => [`key-${n % keys}`, `${n}`])

describe('a consumer', { skip: noKafka() ?? false }, () => {
  test('processes every record once and commits behind the last', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 3)
    const seen: string[] = []
    await it.kcat.produce({ topic, records: numbered(200, 20) })
    const { consumer } = await aConsumer(t, it, { topic, handler: ({ value }) => void seen.push(textOf(value) ?? '') })
    await eventually('all are processed', async () => (consumer.snapshot().tally.processed === 200 ? true : null))
    assert.equal(new Set(seen).size, 200)
    assert.equal(seen.length, 200)
    const counts = [0, 0, 0]
    for (const { partition } of await it.kcat.records(topic)) counts[partition] = (counts[partition] ?? 0) + 1
    await untilCommitted(it, topic, counts)
  })

  test('keeps the order of each key, while other keys go on and one fails', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 2)
    const byKey = new Map<string, string[]>()
    await it.kcat.produce({ topic, records: numbered(60, 6) })
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { concurrency: 8 },
      handler: ({ key, value }, { attempt }) => {
        const name = textOf(key) ?? ''
        if (name === 'key-3' && attempt === 1) throw new Error('not yet')
        byKey.set(name, [...(byKey.get(name) ?? []), textOf(value) ?? ''])
      },
    })
    await eventually('all are processed', async () => (consumer.snapshot().tally.processed === 60 ? true : null))
    for (const [name, values] of byKey) {
      const at = Number(name.slice(4))
      assert.deepEqual(
        values,
        Array.from({ length: 10 }, (_, n) => String(at + 6 * n)),
      )
    }
    assert.equal(consumer.snapshot().tally.attempts, 70)
  })

  test('spends and commits nothing while something of our own is down', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: numbered(20, 20) })
    let isDown = true
    const { consumer } = await aConsumer(t, it, {
      topic,
      handler: () => {
        if (isDown) throw infrastructure('Postgres is down')
      },
    })
    await eventually('it has tried again', async () => ((consumer.snapshot().hold?.times ?? 0) >= 2 ? true : null))
    assert.equal(consumer.snapshot().hold?.reason, 'infrastructure')
    assert.equal(await committedOf(it, topic), 0)
    isDown = false
    await untilCommitted(it, topic, [20])
    const { processed, deadLetters } = consumer.snapshot().tally
    assert.deepEqual([processed, deadLetters], [20, 0])
  })

  test('parks what needs a dependency that is down, and goes on when a probe succeeds', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: numbered(12, 12) })
    let isDown = true
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { concurrency: 1 },
      handler: ({ value }) => {
        if (isDown && Number(textOf(value)) % 2 === 0) throw unavailable('payments-api')
      },
    })
    await eventually('its breaker opens', async () => (consumer.snapshot().breakers.has('payments-api') ? true : null))
    await eventually('all others are processed', async () => (consumer.snapshot().tally.processed === 6 ? true : null))
    await eventually('the six are parked', async () =>
      consumer.snapshot().partitions[0]?.records.parked === 6 ? true : null,
    )
    assert.equal(consumer.snapshot().tally.deadLetters, 0)
    isDown = false
    await consumer.resetDependency('payments-api')
    await untilCommitted(it, topic, [12])
  })

  test('processes a copy only once, and one that failed again', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({
      topic,
      records: [
        ['a', 'one'],
        ['a', 'one'],
        ['b', 'two'],
        ['b', 'two'],
      ],
    })
    const seen: string[] = []
    const { consumer } = await aConsumer(t, it, {
      topic,
      messageId: ({ value }) => textOf(value) ?? '',
      handler: ({ value, offset }) => {
        if (offset === 2) throw fatal('this one')
        seen.push(textOf(value) ?? '')
      },
    })
    await untilCommitted(it, topic, [4])
    assert.deepEqual(seen.sort(), ['one', 'two'])
    assert.equal(consumer.snapshot().tally.duplicates, 1)
  })

  test('after a restart goes on where it was, and repeats nothing that was done above an open record', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({ topic, records: numbered(50, 50) })
    const first: number[] = []
    const stuck = Promise.withResolvers<void>()
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { drainMs: 100 },
      handler: async ({ offset }) => {
        if (offset === 3) await stuck.promise
        first.push(offset)
      },
    })
    await eventually('all others are done', async () => (consumer.snapshot().tally.processed === 49 ? true : null))
    await consumer.stop()
    stuck.resolve()
    assert.equal(await committedOf(it, topic), 3)
    const again: number[] = []
    await aConsumer(t, it, { topic, handler: ({ offset }) => void again.push(offset) })
    await untilCommitted(it, topic, [50])
    assert.deepEqual(again, [3])
  })

  test('drains and commits what is done before a partition moves, and the next owner repeats nothing', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 4)
    const seen = new Map<string, number>()
    const handler = async ({ partition, offset }: { partition: number; offset: number }) => {
      await new Promise((resolve) => setTimeout(resolve, 2))
      const at = `${partition}/${offset}`
      seen.set(at, (seen.get(at) ?? 0) + 1)
    }
    const { consumer: one } = await aConsumer(t, it, { topic, handler })
    await it.kcat.produce({ topic, records: numbered(400, 100) })
    await eventually('some are done', async () => (seen.size > 50 ? true : null))
    await aConsumer(t, it, { topic, handler })
    await eventually('the partitions are shared', async () => (one.snapshot().partitions.length === 2 ? true : null))
    await it.kcat.produce({ topic, records: numbered(400, 100) })
    await eventually('all are done', async () => (seen.size === 800 ? true : null))
    assert.deepEqual([...new Set(seen.values())], [1])
  })

  test('keeps no more in memory than it may, and leaves nothing out', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 2)
    await it.kcat.produce({ topic, records: numbered(3_000, 300) })
    let most = 0
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { recordsMax: 100, concurrency: 4 },
      handler: () => {
        const held = consumer.snapshot().partitions.flatMap(({ records }) => Object.values(records))
        most = Math.max(
          most,
          held.reduce((sum, count) => sum + count, 0),
        )
      },
    })
    await eventually('all are done', async () => (consumer.snapshot().tally.processed === 3_000 ? true : null))
    // One poll may bring its records after the room is full.
    assert.ok(most <= 100 + 2 * 1_000, `${most} in memory`)
    assert.equal(consumer.snapshot().tally.attempts, 3_000)
  })

  test('skips the oldest open record when a person says so', async (t) => {
    const it = scene()
    const topic = await it.aTopic(t, 1)
    await it.kcat.produce({
      topic,
      records: [
        ['a', 'stuck'],
        ['a', 'next'],
      ],
    })
    const { consumer } = await aConsumer(t, it, {
      topic,
      settings: { retry: { ...quickRetry, delaysMs: [600_000] } },
      handler: ({ value }) => {
        if (textOf(value) === 'stuck') throw new Error('for long')
      },
    })
    await eventually('it waits', async () => (consumer.snapshot().partitions[0]?.records.waiting === 1 ? true : null))
    const passOver = consumer.skip.bind(consumer)
    assert.equal(await passOver({ topic, partition: 0 }, 1), false, 'it is not the oldest')
    assert.equal(await passOver({ topic, partition: 0 }, 0), true)
    await untilCommitted(it, topic, [2])
    assert.deepEqual([consumer.snapshot().tally.processed, consumer.snapshot().tally.skipped], [1, 1])
  })
})
