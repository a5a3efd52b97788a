import { PosthornError } from '../../core/errors.ts'
import type { ConnectionOptions, ConsumerOptions, ProducerOptions } from '../driver.ts'
import type { NativeSettings } from './native.ts'

/** Longer than any message: whether one is too large is the topic's business. */
const messageBytesMax = 1_000_000_000

/** So that a broker that is back, and a topic that is new or does not exist, are noticed in seconds. Users may set others. */
const patience = {
  'reconnect.backoff.ms': 100,
  'reconnect.backoff.max.ms': 2_000,
  'topic.metadata.propagation.max.ms': 3_000,
  'topic.metadata.refresh.interval.ms': 5_000,
}

export function connectionSettings(options: ConnectionOptions): NativeSettings {
  return merged(options, { 'bootstrap.servers': options.brokers, 'allow.auto.create.topics': false })
}

export function consumerSettings(options: ConsumerOptions): NativeSettings {
  const classic = { 'partition.assignment.strategy': 'cooperative-sticky' }
  return merged(options, {
    'bootstrap.servers': options.brokers,
    'allow.auto.create.topics': false,
    'group.id': options.group,
    'group.protocol': options.protocol,
    'auto.offset.reset': options.start,
    ...(options.protocol === 'classic' ? classic : {}),
    'enable.auto.commit': false,
    'enable.auto.offset.store': false,
    'enable.partition.eof': false,
  })
}

export function producerSettings(options: ProducerOptions): NativeSettings {
  return merged(options, {
    'bootstrap.servers': options.brokers,
    'allow.auto.create.topics': false,
    acks: 'all',
    'enable.idempotence': true,
    partitioner: 'murmur2_random',
    'message.timeout.ms': options.messageMsMax,
    'linger.ms': options.lingerMs ?? 0,
    'message.max.bytes': messageBytesMax,
    dr_cb: true,
  })
}

/** Names that only the driver sets, because its promises rest on them. */
const callbacks = /_cb$/

function merged({ settings = {} }: ConnectionOptions, own: NativeSettings): NativeSettings {
  const taken = Object.keys(settings).filter((name) => Object.hasOwn(own, name) || callbacks.test(name))
  if (taken.length > 0) {
    const message = `Kafka settings that Posthorn sets itself cannot be given: ${taken.join(', ')}.`
    throw new PosthornError('config_invalid', message)
  }
  return { ...patience, ...settings, ...own }
}
