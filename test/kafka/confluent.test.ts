import { describe } from 'node:test'
import { openConfluent } from '../../src/kafka/confluent/open.ts'
import { kafkaDriverContract } from '../contracts/kafka-driver.ts'
import { kafkaClientFolder, noKafka } from '../support/kafka.ts'

describe('the Kafka driver', { skip: noKafka() ?? false }, () => {
  kafkaDriverContract('Confluent', () => openConfluent(kafkaClientFolder()))
})
