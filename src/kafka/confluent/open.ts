import type { KafkaDriver } from '../driver.ts'
import { ConfluentAdmin } from './confluent-admin.ts'
import { ConfluentConsumer } from './confluent-consumer.ts'
import { ConfluentProducer } from './confluent-producer.ts'
import { loadNative } from './native.ts'

/** The driver on `@confluentinc/kafka-javascript`. `clientFolder`: where to look for it when it is not beside Posthorn. */
export function openConfluent(clientFolder: string | null): KafkaDriver {
  const native = loadNative(clientFolder)
  return {
    openConsumer: (options, owner) => ConfluentConsumer.open(native, options, owner),
    openProducer: (options) => ConfluentProducer.open(native, options),
    openAdmin: (options) => new ConfluentAdmin(native, options),
  }
}
