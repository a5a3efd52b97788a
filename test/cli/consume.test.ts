import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaScene } from '../contracts/kafka-driver.ts'
import { committedOf } from '../support/consumer-scene.ts'
import { eventually } from '../support/eventually.ts'
import { kafkaBrokers, kafkaClientFolder, noKafka } from '../support/kafka.ts'
import { posthorn, start } from './command.ts'
import { folderFor } from './server.ts'

const handler = fileURLToPath(new URL('../support/count-records.ts', import.meta.url))

describe('posthorn consume', () => {
  test('says what is missing or wrong, with exit code 2', async (t) => {
    const cwd = folderFor(t)
    const nothing = await posthorn(['consume'], { cwd })
    assert.deepEqual([nothing.code, /needs --topic, --group, --handler/.test(nothing.stderr)], [2, true])
    const asked = ['consume', '--topic', 'a', '--group', 'g', '--handler', handler]
    const noBroker = await posthorn(asked, { cwd })
    assert.deepEqual([noBroker.code, /POSTHORN_KAFKA_BROKERS/.test(noBroker.stderr)], [2, true])
    const wrong = await posthorn([...asked, '--kafka-brokers', 'x:1', '--ordering', 'kye'], { cwd })
    assert.deepEqual(
      [wrong.code, /ordering must be one of key, partition, none/.test(wrong.stderr)],
      [2, true],
      wrong.stderr,
    )
    assert.equal(existsSync(join(cwd, 'data')), false, 'no database is made')
  })

  test('processes records until it is stopped, and has committed them then', {
    skip: noKafka() ?? false,
  }, async (t) => {
    const it = kafkaScene(openConfluent(kafkaClientFolder()), kafkaBrokers())
    const topic = await it.aTopic(t, 1)
    const cwd = folderFor(t)
    const to = join(cwd, 'processed')
    const kafka = ['--kafka-brokers', kafkaBrokers(), '--kafka-client', kafkaClientFolder()]
    const consume = start(['consume', '--topic', topic, '--group', `${topic}.group`, '--handler', handler, ...kafka], {
      cwd,
    })
    t.after(() => consume.stop('SIGKILL'))
    await consume.line(/^consuming /)
    await it.kcat.produce({
      topic,
      headers: [['to', to]],
      records: [
        ['a', 'one'],
        ['a', 'two'],
      ],
    })
    await eventually('both are processed', async () =>
      existsSync(to) && readFileSync(to, 'utf8').trim().split('\n').length === 2 ? true : null,
    )
    const { code, stderr } = await consume.stop('SIGTERM')
    assert.equal(code, 0, stderr)
    assert.equal(await committedOf(it, topic), 2)
  })
})
