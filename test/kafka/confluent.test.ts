import { describe } from 'node:test'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaDriverContract } from '../contracts/kafka-driver.ts'
import { kafkaClientFolder, noKafka } from '../support/kafka.ts'

// Its tests wait for the broker, not for the processor, and have topics of their own.
describe('the Kafka driver', { skip: noKafka() ?? false, concurrency: 2 }, () => {
  kafkaDriverContract('Confluent', () => openConfluent(kafkaClientFolder()))
})
