import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { kcatProgram } from './services/kafka-client.ts'
import { kafkaPrograms } from './services/kafka-programs.ts'
import { type KafkaOptions, startKafka } from './services/kafka-server.ts'
import { ServiceMissing, whyMissing } from './services/missing.ts'
import type { Service } from './services/service.ts'

/** Why there is no shared broker, or no client for it, for `skip`; null when there are. */
export function noKafka(): string | null {
  return whyMissing(kafkaBrokers) ?? whyMissing(kafkaClientFolder) ?? whyMissing(kcatProgram)
}

/** The bootstrap servers that all tests share: those that are configured, else the broker that `npm test` starts. */
export function kafkaBrokers(): string {
  return given('POSTHORN_TEST_KAFKA', 'BROKERS')
}

/** From where `@confluentinc/kafka-javascript` can be required. */
export function kafkaClientFolder(): string {
  return given('POSTHORN_TEST_KAFKA_CLIENT', 'FOLDER')
}

function given(variable: string, name: string): string {
  const value = process.env[`${variable}_${name}`]
  if (value !== undefined && value !== '') return value
  const why = process.env[`${variable}_MISSING`] ?? 'run this with `npm test -- <file>`, which starts Kafka'
  throw new ServiceMissing(why)
}

/** Why a test cannot start a broker of its own, for `skip`; null when it can. */
export function noOwnKafka(): string | null {
  return whyMissing(kafkaPrograms) ?? whyMissing(kafkaClientFolder) ?? whyMissing(kcatProgram)
}

/** A broker of the test's own, to be killed, stopped and closed to strangers. It goes when the test ends. */
export async function anOwnKafka(t: TestContext, options?: KafkaOptions): Promise<Service> {
  const kafka = await startKafka(options)
  t.after(() => kafka.discard())
  return kafka
}

/** For the names of topics and groups, so that no test meets those of another. */
export function aTopicPrefix(): string {
  return `posthorn-test-${randomBytes(6).toString('hex')}.`
}
