import { Buffer } from 'node:buffer'
import { fatal } from '../core/handler-errors.ts'
import type { HandledRecord, RecordFacts } from './engine.ts'

/** The record of a task as its handler sees it. */
export class RecordForHandler implements HandledRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly key: Uint8Array | null
  readonly value: Uint8Array | null
  readonly headers: HandledRecord['headers']
  readonly timestamp: Date | null

  constructor(record: RecordFacts, bytes: Uint8Array) {
    this.topic = record.topic
    this.partition = record.partition
    this.offset = record.offset
    // Copies: what cannot be processed becomes a dead letter with the bytes that it came with.
    this.key = record.key === null ? null : Buffer.from(record.key)
    this.value = record.isTombstone ? null : Buffer.from(bytes)
    this.headers = record.headers.map(([name, value]) => [name, Buffer.from(value)])
    this.timestamp = record.timestamp === null ? null : new Date(record.timestamp)
  }

  json(): unknown {
    const where = `${this.topic}/${this.partition}@${this.offset}`
    if (this.value === null) throw fatal(`${where} is a tombstone: it has no value to read.`)
    try {
      return JSON.parse(Buffer.from(this.value).toString())
    } catch (cause) {
      throw fatal(`The value of ${where} is not JSON.`, { cause })
    }
  }
}
