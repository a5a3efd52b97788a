import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { metadataBytesMax } from '../../src/core/offset-metadata.ts'
import type { CommittedOffset, ConsumerOptions, Partition } from '../../src/kafka/driver.ts'
import { type Doing, Member } from '../support/kafka-member.ts'
import type { KafkaScene } from './kafka-driver.ts'

const protocols = ['classic', 'consumer'] as const

function optionsOf({ brokers }: KafkaScene, topic: string, more: Partial<ConsumerOptions> = {}): ConsumerOptions {
  const { protocol = 'classic' } = more
  // So that members of a classic group hear of each other at once. With the other protocol the broker says when.
  const settings = protocol === 'classic' ? { 'heartbeat.interval.ms': 100 } : {}
  return { brokers, topics: [topic], group: `${topic}.group`, protocol, start: 'earliest', settings, ...more }
}

function join(
  t: TestContext,
  it: KafkaScene,
  topic: string,
  more: Partial<ConsumerOptions> = {},
  doing: Doing = {},
): Promise<Member> {
  return Member.open(t, it.driver, optionsOf(it, topic, more), doing)
}

const texts = (from: number, to: number): readonly (readonly [string, string])[] =>
  Array.from({ length: to - from }, (_, at) => ['k', `text ${from + at}`])

const upTo = (end: number) => Array.from({ length: end }, (_, at) => at)

/** What a consumer commits that has done all that has come. */
function nextOf(member: Member, partitions: readonly Partition[], metadata = ''): readonly CommittedOffset[] {
  return partitions.map(({ topic, partition }) => {
    const offset = (member.of(partition).at(-1) ?? -1) + 1
    return { topic, partition, offset, metadata }
  })
}

/** Commits in the revoke, as a consumer does. */
const committing: Doing = {
  onRevoked: (member, partitions) => member.consumer.commit(nextOf(member, partitions, 'in the revoke')),
}

export function kafkaConsumerContract(name: string, scene: () => KafkaScene): void {
  describe(`${name}: consumer`, () => {
    test('brings what others wrote, in the order of each partition', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const headers = [
        ['trace', 'one'],
        ['trace', 'two'],
        ['__proto__', 'three'],
      ] as const
      await it.kcat.produce({ topic, partition: 0, headers, records: [['k', 'v']] })
      await it.kcat.produce({ topic, partition: 0, records: [['', '']] })
      await it.kcat.produce({ topic, partition: 1, records: texts(0, 50) })
      const member = await join(t, it, topic)
      await member.untilRecords(52)
      const [first, second] = member.records.filter(({ partition }) => partition === 0)
      const text = (bytes: Uint8Array | null | undefined) => bytes && Buffer.from(bytes).toString()
      assert.deepEqual([text(first?.key), text(first?.value), first?.leaderEpoch], ['k', 'v', 0])
      assert.deepEqual(
        first?.headers.map(([name, value]) => [name, text(value)]),
        headers,
      )
      assert.ok(Math.abs(first!.timestamp! - Date.now()) < 60_000)
      assert.deepEqual([second?.key, second?.value, second?.headers], [null, null, []])
      assert.deepEqual(member.of(1), upTo(50))
    })

    test('brings the bytes that were sent, be they none', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const all = Uint8Array.from({ length: 256 }, (_, at) => at)
      const none = new Uint8Array()
      const plain = { topic, partition: 0, timestamp: null }
      const producer = await it.driver.openProducer({ brokers: it.brokers, messageMsMax: 10_000 })
      t.after(() => producer.close())
      const headers = [
        ['bytes', all],
        ['none', none],
        ['bytes', none],
      ] as const
      await producer.send([
        { ...plain, key: all, value: all, headers },
        // A view of a part of its buffer.
        { ...plain, key: none, value: none, headers: [['part', all.subarray(10, 12)]] },
        { ...plain, key: null, value: null, headers: [] },
      ])
      const member = await join(t, it, topic)
      await member.untilRecords(3)
      const found = member.records.map(({ key, value, headers }) => ({
        key: key && [...key],
        value: value && [...value],
        headers: headers.map(([name, bytes]) => [name, [...bytes]]),
      }))
      const list = [...all]
      assert.deepEqual(found, [
        { key: list, value: list, headers: [...['bytes', 'none', 'bytes'].map((name, at) => [name, at ? [] : list])] },
        { key: [], value: [], headers: [['part', [10, 11]]] },
        { key: null, value: null, headers: [] },
      ])
    })

    test('brings no more at once than was asked for', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      await it.kcat.produce({ topic, records: texts(0, 20) })
      const options = optionsOf(it, topic, { pollRecordsMax: 7 })
      const owner = { assigned: async () => {}, revoked: async () => {}, lost: () => {} }
      const consumer = await it.driver.openConsumer(options, owner)
      t.after(() => consumer.close())
      const sizes: number[] = []
      for (let left = 20; left > 0; left -= sizes.at(-1)!) sizes.push((await consumer.poll()).length)
      assert.ok(Math.max(...sizes) <= 7)
    })

    test('lets its owner read what was committed before the first record comes', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      await it.kcat.produce({ topic, records: texts(0, 5) })
      await it.kcat.consumeAs(`${topic}.group`, topic, 2)
      const seen: unknown[] = []
      const member = await join(
        t,
        it,
        topic,
        {},
        {
          onAssigned: async (member, partitions) => {
            seen.push(
              member.records.length,
              (await member.consumer.committed(partitions)).map(({ offset }) => offset),
            )
          },
        },
      )
      await member.untilRecords(3)
      assert.deepEqual(seen, [0, [2]])
      assert.deepEqual(member.of(0), [2, 3, 4])
    })

    test('pauses partitions, and leaves out and repeats nothing when it resumes them', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const member = await join(t, it, topic, { pollRecordsMax: 10 })
      await it.kcat.produce({ topic, partition: 0, records: texts(0, 200) })
      await it.kcat.produce({ topic, partition: 1, records: texts(0, 50) })
      await member.untilRecords(15)
      await member.stop()
      const paused = [{ topic, partition: 0 }]
      member.consumer.pause(paused)
      const before = member.of(0).length
      member.start()
      await it.kcat.produce({ topic, partition: 1, records: texts(50, 100) })
      await member.untilRecords(before + 100)
      assert.deepEqual([member.of(0).length, member.of(1)], [before, upTo(100)])
      member.consumer.resume(paused)
      await member.untilRecords(300)
      assert.deepEqual(member.of(0), upTo(200))
      member.consumer.pause([{ topic: `${topic}.none`, partition: 3 }])
    })

    test('keeps a partition paused that its owner pauses when it is assigned', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      for (const partition of [0, 1]) await it.kcat.produce({ topic, partition, records: texts(0, 3) })
      const paused = [{ topic, partition: 0 }]
      const doing: Doing = { onAssigned: async (member) => member.consumer.pause(paused) }
      const member = await join(t, it, topic, {}, doing)
      await member.untilRecords(3)
      await it.kcat.produce({ topic, partition: 1, records: texts(3, 6) })
      await member.untilRecords(6)
      assert.deepEqual([member.of(0), member.of(1)], [[], upTo(6)])
      member.consumer.resume(paused)
      await member.untilRecords(9)
      assert.deepEqual(member.of(0), upTo(3))
    })

    test('goes back and forth in a partition', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      await it.kcat.produce({ topic, records: texts(0, 10) })
      const member = await join(t, it, topic)
      await member.untilRecords(10)
      await member.consumer.seek({ topic, partition: 0 }, 7)
      await member.untilRecords(13)
      assert.deepEqual(member.of(0).slice(10), [7, 8, 9])
      await member.consumer.seek({ topic, partition: 0 }, 2)
      await member.untilRecords(21)
      assert.deepEqual(member.of(0).slice(13), upTo(10).slice(2))
      await assert.rejects(member.consumer.seek({ topic, partition: 5 }, 0), { kind: 'lost' })
    })

    test('reports a topic that does not exist, and takes it up when it does', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const later = `${topic}.later`
      const member = await join(t, it, topic, { topics: [topic, later] })
      await member.untilProblem('unknown_topic')
      await it.kcat.produce({ topic, records: texts(0, 1) })
      await member.untilRecords(1)
      const admin = it.driver.openAdmin({ brokers: it.brokers })
      t.after(async () => {
        await admin.deleteTopics([later]).catch(() => {})
        admin.close()
      })
      await admin.createTopics([{ topic: later, partitions: 1 }])
      await it.kcat.produce({ topic: later, records: texts(0, 1) })
      await member.untilRecords(2)
    })

    test('is not opened where no broker answers, and says so', async () => {
      const it = scene()
      const owner = { assigned: async () => {}, revoked: async () => {}, lost: () => {} }
      const options = optionsOf(it, 'orders', { brokers: '127.0.0.1:1', answerMsMax: 500 })
      await assert.rejects(it.driver.openConsumer(options, owner), {
        kind: 'unreachable',
        message: /^No Kafka broker answers at 127\.0\.0\.1:1/,
      })
    })

    test('passes on what its owner cannot do', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const owner = {
        assigned: () => Promise.reject(new Error('no room for it')),
        revoked: async () => {},
        lost: () => {},
      }
      const consumer = await it.driver.openConsumer(optionsOf(it, topic), owner)
      t.after(() => consumer.close())
      const polling = (async () => {
        for (;;) await consumer.poll()
      })()
      await assert.rejects(polling, /no room for it/)
    })
  })

  for (const protocol of protocols) groupContract(`${name}: consumer, ${protocol} protocol`, protocol, scene)
}

function groupContract(title: string, protocol: ConsumerOptions['protocol'], scene: () => KafkaScene): void {
  describe(title, () => {
    test('commits what the broker then has, with its metadata', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const group = `${topic}.group`
      const member = await join(t, it, topic, { protocol })
      await member.untilMine(2)
      const metadata = 'x'.repeat(metadataBytesMax)
      const both = [
        { topic, partition: 0, offset: 3, metadata: '', leaderEpoch: 0 },
        { topic, partition: 1, offset: 4, metadata },
      ]
      await Promise.all([
        ...upTo(3).map((offset) => member.consumer.commit([{ topic, partition: 0, offset, metadata: 'early' }])),
        member.consumer.commit(both),
      ])
      const kept = await it.kcat.committed(group, topic)
      assert.deepEqual(kept.get(0), { group, topic, partition: 0, offset: 3, metadata: '' })
      assert.deepEqual(kept.get(1), { group, topic, partition: 1, offset: 4, metadata })
      const partitions = [0, 1, 7].map((partition) => ({ topic, partition }))
      const seen = await member.consumer.committed(partitions)
      assert.deepEqual(
        seen.map(({ partition, offset, metadata }) => [partition, offset, metadata.length]),
        [
          [0, 3, 0],
          [1, 4, metadataBytesMax],
        ],
      )
    })

    test('rejects a commit that the broker does not keep', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const member = await join(t, it, topic, { protocol })
      await member.untilMine(1)
      const commit = (offset: Partial<CommittedOffset>) =>
        member.consumer.commit([{ topic, partition: 0, offset: 1, metadata: '', ...offset }])
      await assert.rejects(commit({ metadata: 'ö'.repeat(metadataBytesMax / 2 + 1) }), { kind: 'too_large' })
      await assert.rejects(commit({ partition: 1 }), { kind: 'lost' })
      assert.equal((await it.kcat.committed(`${topic}.group`, topic)).size, 0)
      await commit({ offset: 2 })
      const admin = it.driver.openAdmin({ brokers: it.brokers })
      t.after(() => admin.close())
      await admin.deleteTopics([topic])
      await assert.rejects(commit({ offset: 3 }))
      const commits = await it.kcat.commits(`${topic}.group`)
      assert.deepEqual(
        commits.map(({ offset }) => offset),
        [2],
      )
    })

    test('gives partitions to a new member once what was in hand is committed', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const { promise: drained, resolve: drain } = Promise.withResolvers<void>()
      const first = await join(
        t,
        it,
        topic,
        { protocol },
        {
          onRevoked: async (member, partitions) => {
            await drained
            await committing.onRevoked?.(member, partitions)
          },
        },
      )
      await first.untilMine(2)
      for (const partition of [0, 1]) await it.kcat.produce({ topic, partition, records: texts(0, 10) })
      await first.untilRecords(20)
      const second = await join(t, it, topic, { protocol })
      await first.untilEvent('revoked')
      const [moved] = [0, 1].filter((partition) => !first.mine.has(partition))
      await it.kcat.produce({ topic, partition: moved!, records: texts(10, 15) })
      // It keeps polling, is in the middle of its drain, and gets nothing of what it gives up.
      assert.deepEqual([first.of(moved!), second.mine.size], [upTo(10), 0])
      drain()
      await second.untilRecords(5)
      assert.deepEqual(second.of(moved!), [10, 11, 12, 13, 14])
      assert.deepEqual(first.of(moved!), upTo(10))
      const commits = await it.kcat.commits(`${topic}.group`)
      assert.deepEqual(
        commits.map(({ partition, offset, metadata }) => [partition, offset, metadata]),
        [[moved, 10, 'in the revoke']],
      )
      await assert.rejects(first.consumer.commit(nextOf(first, [{ topic, partition: moved! }])), { kind: 'lost' })
    })

    test('gets partitions back that are not paused, and continues where the other has stopped', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const first = await join(t, it, topic, { protocol }, committing)
      await first.untilMine(2)
      first.consumer.pause([0, 1].map((partition) => ({ topic, partition })))
      const second = await join(t, it, topic, { protocol }, committing)
      await second.untilMine(1)
      const [moved] = [...second.mine]
      await it.kcat.produce({ topic, partition: moved!, records: texts(0, 5) })
      await second.untilRecords(5)
      await second.close()
      await it.kcat.produce({ topic, partition: moved!, records: texts(5, 8) })
      await first.untilMine(2)
      await first.untilRecords(3)
      assert.deepEqual(first.of(moved!), [5, 6, 7])
    })

    test('says that partitions were lost, and commits nothing of them', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 1)
      const hasty = protocol === 'classic' ? { 'session.timeout.ms': 1_000, 'heartbeat.interval.ms': 100 } : {}
      const settings = { ...hasty, 'max.poll.interval.ms': 1_000 }
      const first = await join(t, it, topic, { protocol, settings })
      await first.untilMine(1)
      await it.kcat.produce({ topic, records: texts(0, 3) })
      await first.untilRecords(3)
      await first.stop()
      const second = await join(t, it, topic, { protocol })
      await second.untilRecords(3)
      first.start()
      await first.untilEvent('lost')
      assert.deepEqual(first.events, ['assigned 0', 'lost 0'])
      await assert.rejects(first.consumer.commit(nextOf(first, [{ topic, partition: 0 }])), { kind: 'lost' })
      assert.deepEqual(await it.kcat.commits(`${topic}.group`), [])
      // It is a member again, and gets the partition when the other goes.
      await second.close()
      await first.untilMine(1)
    })

    test('gives up its partitions when it is closed, and commits first', async (t) => {
      const it = scene()
      const topic = await it.aTopic(t, 2)
      const member = await join(t, it, topic, { protocol }, committing)
      await it.kcat.produce({ topic, partition: 0, records: texts(0, 3) })
      await member.untilRecords(3)
      await member.stop()
      await Promise.all([member.consumer.close(), member.consumer.close()])
      assert.deepEqual(member.events.slice(-2), ['revoked 0 1', 'gave up 0 1'])
      const kept = await it.kcat.committed(`${topic}.group`, topic)
      assert.deepEqual([kept.get(0)?.offset, kept.get(1)?.offset], [3, 0])
      await assert.rejects(member.consumer.poll(), { kind: 'closed' })
      await assert.rejects(member.consumer.commit(nextOf(member, [{ topic, partition: 0 }])), /closed/)
      // Nobody waits for a member that has left.
      const next = await join(t, it, topic, { protocol })
      await next.untilMine(2)
    })
  })
}
