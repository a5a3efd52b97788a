import type { CommittedOffset, KafkaHeader, KafkaRecord } from '../driver.ts'
import type { NativeMessage, NativePartition } from './native.ts'

export function recordOf(message: NativeMessage): KafkaRecord {
  const { topic, partition, offset, leaderEpoch = null, key, value, headers, timestamp } = message
  const when = timestamp >= 0 ? timestamp : null
  return { topic, partition, offset, leaderEpoch, key, value, headers: headersOf(headers), timestamp: when }
}

const none: readonly KafkaHeader[] = []

function headersOf(headers: NativeMessage['headers']): readonly KafkaHeader[] {
  return headers === undefined ? none : headers.map(headerOf)
}

/** The client makes an object of each header. One that is named `__proto__` becomes its prototype. */
function headerOf(header: Readonly<Record<string, Buffer>>): KafkaHeader {
  return Object.entries(header)[0] ?? ['__proto__', Object.getPrototypeOf(header)]
}

export function nativeHeaders(headers: readonly KafkaHeader[]): readonly Readonly<Record<string, Buffer>>[] {
  return headers.map(([name, value]) => ({ [name]: bufferOf(value) }))
}

export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Only those with a commit. */
export function committedOffsets(partitions: readonly NativePartition[]): readonly CommittedOffset[] {
  return partitions.flatMap(({ topic, partition, offset, metadata = '', leaderEpoch = null }) =>
    offset === undefined || offset === null || offset < 0 ? [] : [{ topic, partition, offset, metadata, leaderEpoch }],
  )
}
