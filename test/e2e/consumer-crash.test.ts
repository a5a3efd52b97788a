import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { type Running, start } from '../cli/command.ts'
import { folderFor } from '../cli/server.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { committedOf } from '../support/consumer-scene.ts'
import { eventually } from '../support/eventually.ts'
import { kafkaBrokers, kafkaClientFolder, noKafka } from '../support/kafka.ts'

const handler = fileURLToPath(new URL('../support/count-records.ts', import.meta.url))
const kills = 5
const perKill = 300
const keys = 40
const concurrency = 16
/** The broker gives the partitions of one that was killed to the next after this. */
const settings = JSON.stringify({ 'session.timeout.ms': 1_500, 'heartbeat.interval.ms': 300 })

describe('posthorn consume, killed', { skip: noKafka() ?? false }, () => {
  test('loses no record, commits none before its time, keeps the order of keys, and repeats what was under way', async (t) => {
    const it = kafkaScene(openConfluent(kafkaClientFolder()), kafkaBrokers())
    const topic = await it.aTopic(t, 2)
    const cwd = folderFor(t)
    const to = join(cwd, 'processed')
    const kafka = ['--kafka-brokers', kafkaBrokers(), '--kafka-client', kafkaClientFolder()]
    const args = ['consume', '--topic', topic, '--group', `${topic}.group`, '--handler', handler, ...kafka]
    const env = { POSTHORN_KAFKA_SETTINGS: settings }
    const processed = (): readonly string[] =>
      existsSync(to)
        ? readFileSync(to, 'utf8')
            .split('\n')
            .filter(Boolean)
            .map((line) => JSON.parse(line).text)
        : []
    const committedOfAll = async () => (await committedOf(it, topic, 0)) + (await committedOf(it, topic, 1))
    let running: Running | null = null
    t.after(() => running?.stop('SIGKILL'))
    for (let round = 0; round < kills; round++) {
      const first = round * perKill
      const records = Array.from({ length: perKill }, (_, n): [string, string] => [
        `k${(first + n) % keys}`,
        `${first + n}`,
      ])
      running = start(args, { cwd, env })
      await running.line(/^consuming /)
      const headers = [['to', to]] as const
      await it.kcat.produce({ topic, headers, records: records.slice(0, perKill / 2) })
      await eventually('some are committed', async () => ((await committedOfAll()) > first + 20 ? true : null))
      const seenBefore = new Set(processed()).size
      // Killed while it is at work on these.
      await it.kcat.produce({ topic, headers, records: records.slice(perKill / 2) })
      await eventually('some more are processed', async () =>
        new Set(processed()).size > seenBefore + 10 ? true : null,
      )
      await running.stop('SIGKILL')
      const seen = new Set(processed())
      const all = await it.kcat.records(topic)
      for (const partition of [0, 1]) {
        const committed = await committedOf(it, topic, partition)
        const early = all.filter(
          (record) => record.partition === partition && record.offset < committed && !seen.has(record.payload ?? ''),
        )
        assert.deepEqual(early, [], 'committed before it was processed')
      }
    }
    running = start(args, { cwd, env })
    await running.line(/^consuming /)
    const total = kills * perKill
    await eventually('all are committed', async () => ((await committedOfAll()) === total ? true : null))
    assert.equal((await running.stop('SIGTERM')).code, 0)
    assert.equal(new Set(processed()).size, total)
    const ledger = processed()
    const firsts = [...new Set(ledger)].map(Number)
    for (let key = 0; key < keys; key++) {
      const ofKey = firsts.filter((n) => n % keys === key)
      assert.deepEqual(
        ofKey,
        ofKey.toSorted((a, b) => a - b),
        `key ${key} in order`,
      )
    }
    // What was under way, and what was done since the last commit.
    t.diagnostic(`${ledger.length - total} repeats after ${kills} kills`)
    assert.ok(ledger.length - total <= kills * (perKill + concurrency))
  })
})
