import type { KafkaMessage, KafkaProducer, Produced, ProducerOptions } from '../driver.ts'
import { KafkaError } from '../kafka-error.ts'
import { configured, connect, disconnect } from './connection.ts'
import type { Native, NativeError, NativeProducer, NativeReport } from './native.ts'
import { kafkaError, thrown } from './problems.ts'
import { bufferOf, nativeHeaders } from './records.ts'
import { producerSettings } from './settings.ts'

const closeMsMaxDefault = 10_000

type Settle = (produced: Produced) => void

export class ConfluentProducer implements KafkaProducer {
  readonly #client: NativeProducer
  /** By number, which travels with the message to its report. */
  readonly #pending = new Map<number, Settle>()
  #sent = 0
  #closed: Promise<void> | null = null

  static async open(native: Native, options: ProducerOptions): Promise<ConfluentProducer> {
    const producer = configured(() => new ConfluentProducer(new native.Producer(producerSettings(options))))
    await connect(producer.#client, options, () => producer.#serve())
    // Reports come without our asking, from a thread of the client.
    producer.#client.setPollInBackground(true)
    return producer
  }

  private constructor(client: NativeProducer) {
    this.#client = client
    client.on('delivery-report', (error, report) => this.#reported(error, report))
  }

  send(messages: readonly KafkaMessage[]): Promise<readonly Produced[]> {
    return Promise.all(messages.map((message) => this.#send(message)))
  }

  close(waitMsMax = closeMsMaxDefault): Promise<void> {
    this.#closed ??= this.#close(waitMsMax)
    return this.#closed
  }

  async #close(waitMsMax: number): Promise<void> {
    await new Promise<void>((resolve) => this.#client.flush(waitMsMax, resolve))
    await disconnect((done) => this.#client.disconnect(0, done))
    // The client reports nothing more.
    const message = 'The Kafka producer was closed before a broker had acknowledged the message.'
    for (const settle of this.#pending.values()) settle(failed(new KafkaError('closed', message)))
    this.#pending.clear()
  }

  #serve(): void {
    try {
      this.#client.poll()
    } catch {
      // It is not made yet.
    }
  }

  #send(message: KafkaMessage): Promise<Produced> {
    const { promise, resolve } = Promise.withResolvers<Produced>()
    this.#sent += 1
    const number = this.#sent
    this.#pending.set(number, resolve)
    try {
      this.#produce(message, number)
    } catch (error) {
      this.#settle(number, failed(thrown(couldNot(message.topic), error)))
    }
    return promise
  }

  #produce({ topic, partition, key, value, headers, timestamp }: KafkaMessage, number: number): void {
    if (this.#closed !== null) throw new KafkaError('closed', 'The Kafka producer is closed.')
    const [keyBytes, valueBytes] = [key, value].map((bytes) => (bytes === null ? null : bufferOf(bytes)))
    const parts = [keyBytes ?? null, valueBytes ?? null] as const
    this.#client.produce(topic, partition, parts[1], parts[0], timestamp, number, nativeHeaders(headers))
  }

  #reported(error: NativeError | null | undefined, report: NativeReport): void {
    const { topic, partition, offset, opaque } = report
    const produced: Produced = error
      ? failed(kafkaError(couldNot(topic), error))
      : { kind: 'acknowledged', topic, partition, offset }
    this.#settle(Number(opaque), produced)
  }

  #settle(number: number, produced: Produced): void {
    this.#pending.get(number)?.(produced)
    this.#pending.delete(number)
  }
}

function couldNot(topic: string): string {
  return `A message could not be sent to topic ${topic}`
}

function failed(error: KafkaError): Produced {
  return { kind: 'failed', error }
}
