import type { TestContext } from 'node:test'
import { openClock } from '../../src/clock.ts'
import { Consumer } from '../../src/consumer/consumer.ts'
import { DeadLetterTopic } from '../../src/consumer/dead-letter-topic.ts'
import type { DeadLetters } from '../../src/consumer/dead-letters.ts'
import { Dependencies } from '../../src/consumer/dependencies.ts'
import { runThrough } from '../../src/consumer/run-record.ts'
import { type ConsumerSettings, consumerDefaults } from '../../src/core/consumer.ts'
import type { SchedulePolicy } from '../../src/core/retry-policy.ts'
import { AsyncEngine } from '../../src/engines/async-engine.ts'
import type { Engine, ModuleCode, RecordHandler } from '../../src/engines/engine.ts'
import { LateRuns } from '../../src/engines/late-runs.ts'
import { Watchdog } from '../../src/engines/watchdog.ts'
import type { KafkaRecord } from '../../src/kafka/driver.ts'
import type { Logger } from '../../src/log.ts'
import { Dedup } from '../../src/shared-state/dedup.ts'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import type { SharedState } from '../../src/shared-state/shared-state.ts'
import type { KafkaScene } from '../contracts/kafka-driver.ts'
import { eventually } from './eventually.ts'

/** Short waits, so that tests see every retry. */
export const quickRetry: SchedulePolicy = {
  preset: null,
  strategy: 'schedule',
  delaysMs: [10],
  jitter: { kind: 'ratio', ratio: 0 },
  maxAttempts: 3,
  maxAgeMs: null,
}

export type ConsumerGiven = Readonly<{
  topic: string
  handler: RecordHandler | ModuleCode
  settings?: Partial<ConsumerSettings>
  /** null: none are kept. Default: the topic beside that of the record. */
  deadLetters?: DeadLetters | null
  engine?: Engine
  state?: SharedState
  messageId?: (record: KafkaRecord) => string
}>

export type Logged = Readonly<{ event: string; facts: Readonly<Record<string, unknown>> }>
export type OpenedConsumer = Readonly<{ consumer: Consumer; logged: readonly Logged[] }>

function logInto(logged: Logged[]): Logger {
  const note = (facts: Record<string, unknown>, event: string) => void logged.push({ facts, event })
  return { level: 'info', info: note, warn: note, error: note, debug: note, fatal: note } as unknown as Logger
}

/** A consumer on the real broker, which is stopped when the test ends. */
export async function aConsumer(t: TestContext, scene: KafkaScene, given: ConsumerGiven): Promise<OpenedConsumer> {
  const { driver, brokers } = scene
  const logged: Logged[] = []
  const log = logInto(logged)
  const clock = openClock()
  const settings: ConsumerSettings = {
    ...consumerDefaults,
    name: 'shop',
    topics: [given.topic],
    group: `${given.topic}.group`,
    retry: quickRetry,
    commitEveryMs: 50,
    ...given.settings,
  }
  const own = new AsyncEngine({ watchdog: new Watchdog({ log }), lateRuns: new LateRuns(log) })
  const engine = given.engine ?? own
  const state = given.state ?? new MemoryState(clock.steady)
  const { name, timeoutMs, ordering, topics, group } = settings
  const options = { brokers, topics, group, protocol: 'classic', start: 'earliest' } as const
  const dedup = new Dedup({ state, clock, log, scope: name, leaseMs: timeoutMs })
  const admin = driver.openAdmin({ brokers })
  t.after(() => admin.close())
  const openProducer = () => driver.openProducer({ brokers, messageMsMax: 10_000, lingerMs: 0 })
  const topicOfDead = new DeadLetterTopic({ admin, openProducer, suffix: settings.dlqTopicSuffix })
  if (given.deadLetters === undefined) await topicOfDead.prepare(settings.topics)
  const consumer = new Consumer({
    settings,
    join: (owner) => driver.openConsumer(options, owner),
    run: runThrough({ consumer: name, code: given.handler, engine, timeoutMs, ordering, clock }),
    deadLetters: given.deadLetters === undefined ? topicOfDead : given.deadLetters,
    dependencies: new Dependencies({ state, clock, log, timeoutMs }),
    copies: given.messageId === undefined ? null : { dedup, messageId: given.messageId },
    clock,
    log,
    random: () => 0.5,
  })
  t.after(async () => {
    await consumer.stop()
    await topicOfDead.close()
    await own.stop()
  })
  await consumer.start()
  return { consumer, logged }
}

/** What the broker itself says that the group has committed of a partition; 0: nothing. */
export async function committedOf({ kcat }: KafkaScene, topic: string, partition = 0): Promise<number> {
  // The first commit of a broker makes the topic where commits are kept.
  const committed = await kcat.committed(`${topic}.group`, topic).catch(() => null)
  return committed?.get(partition)?.offset ?? 0
}

/** Resolves when the group has committed exactly so much of each partition. */
export function untilCommitted(scene: KafkaScene, topic: string, offsets: readonly number[]): Promise<boolean> {
  return eventually(`${topic}.group commits ${offsets}`, async () => {
    const found = await Promise.all(offsets.map((_, partition) => committedOf(scene, topic, partition)))
    return offsets.every((offset, partition) => found[partition] === offset) ? true : null
  })
}
