import type { IdPrefix } from '../../core/id.ts'
import { rowKeyBytes, writeRowKey } from './row-keys.ts'

/**
 * Arrays as Postgres takes them in binary: a third of the work of text. The driver sends a Buffer as it is.
 *
 * Header: dimensions, whether there are NULLs, type of the elements, length, lower bound. Then each element: its length
 * (-1 for NULL) and its bytes.
 */
const headerBytes = 20
const oids = { bytea: 17, int8: 20, int4: 23, text: 25, uuid: 2950 } as const

export function int4s(values: readonly (number | null)[]): Buffer {
  const buffer = begin(oids.int4, values.length, values.length * 8, values.includes(null))
  let at = headerBytes
  for (const value of values) {
    if (value === null) at = writeNull(buffer, at)
    else {
      buffer.writeInt32BE(4, at)
      buffer.writeInt32BE(value, at + 4)
      at += 8
    }
  }
  return buffer.subarray(0, at)
}

/** Whole numbers that a double holds exactly. */
export function int8s(values: readonly (number | null)[]): Buffer {
  const buffer = begin(oids.int8, values.length, values.length * 12, values.includes(null))
  let at = headerBytes
  for (const value of values) {
    if (value === null) at = writeNull(buffer, at)
    else {
      const high = Math.floor(value / 0x1_0000_0000)
      buffer.writeInt32BE(8, at)
      buffer.writeInt32BE(high, at + 4)
      buffer.writeUInt32BE(value - high * 0x1_0000_0000, at + 8)
      at += 12
    }
  }
  return buffer.subarray(0, at)
}

/** Each as `asStored` makes it; half a character is replaced when it is written. */
export function texts(given: readonly (string | null)[]): Buffer {
  const values = given.some((value) => value?.includes(nul)) ? given.map(asStored) : given
  let bytes = 0
  let hasNulls = false
  for (const value of values) {
    if (value === null) hasNulls = true
    else bytes += Buffer.byteLength(value)
    bytes += 4
  }
  const buffer = begin(oids.text, values.length, bytes, hasNulls)
  let at = headerBytes
  for (const value of values) {
    if (value === null) at = writeNull(buffer, at)
    else {
      const length = buffer.write(value, at + 4)
      buffer.writeInt32BE(length, at)
      at += 4 + length
    }
  }
  return buffer.subarray(0, at)
}

export function byteas(values: readonly (Uint8Array | null)[]): Buffer {
  let bytes = 0
  for (const value of values) bytes += 4 + (value?.length ?? 0)
  const buffer = begin(oids.bytea, values.length, bytes, values.includes(null))
  let at = headerBytes
  for (const value of values) {
    if (value === null) at = writeNull(buffer, at)
    else {
      buffer.writeInt32BE(value.length, at)
      buffer.set(value, at + 4)
      at += 4 + value.length
    }
  }
  return buffer
}

/** Ids as row keys. One that is no id becomes the smallest key, which no row has. */
export function keys(prefix: IdPrefix, ids: readonly string[]): Buffer {
  const buffer = begin(oids.uuid, ids.length, ids.length * (4 + rowKeyBytes), false)
  let at = headerBytes
  for (const id of ids) {
    buffer.writeInt32BE(rowKeyBytes, at)
    if (!writeRowKey(prefix, id, buffer, at + 4)) buffer.fill(0, at + 4, at + 4 + rowKeyBytes)
    at += 4 + rowKeyBytes
  }
  return buffer
}

const nul = '\u0000'
const replacement = '\ufffd'

/** A text as Postgres gives it back: it has none with a NUL character or with half a character. */
export function asStored<T extends string | null>(text: T): T {
  if (text === null) return text
  return (text.includes(nul) ? text.replaceAll(nul, replacement) : text).toWellFormed() as T
}

function begin(oid: number, length: number, bytes: number, hasNulls: boolean): Buffer {
  const buffer = Buffer.allocUnsafe(headerBytes + bytes)
  // An empty array has no dimension.
  buffer.writeInt32BE(length === 0 ? 0 : 1, 0)
  buffer.writeInt32BE(hasNulls ? 1 : 0, 4)
  buffer.writeInt32BE(oid, 8)
  buffer.writeInt32BE(length, 12)
  buffer.writeInt32BE(1, 16)
  return length === 0 ? buffer.subarray(0, 12) : buffer
}

function writeNull(buffer: Buffer, at: number): number {
  buffer.writeInt32BE(-1, at)
  return at + 4
}
