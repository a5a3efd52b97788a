import { digitPairs, type IdPrefix } from '../../core/id.ts'

/**
 * The row key of an id on Postgres: its number and its random part, 115 bits, at the beginning of a uuid. It sorts as the
 * id does, and two processes never make the same one.
 */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const digitsOfId = 23
const bitsPerDigit = 5
/** Eight digits are five bytes. Three such groups hold an id; the last of their digits is always 0. */
const digitsOfGroup = 8
const bytesOfGroup = 5
const hexOfGroup = 10
const groupsOfKey = 3

const digitOf = new Int8Array(128).fill(-1)
for (let digit = 0; digit < alphabet.length; digit++) digitOf[alphabet.charCodeAt(digit)] = digit

export const rowKeyBytes = 16

/** Writes the key of this id into the buffer; answers false when the text is not an id with this prefix. */
export function writeRowKey(prefix: IdPrefix, id: string, buffer: Uint8Array, offset: number): boolean {
  const start = prefix.length + 1
  if (id.length !== start + digitsOfId || !id.startsWith(`${prefix}_`)) return false
  for (let group = 0; group < groupsOfKey; group++) {
    const first = start + group * digitsOfGroup
    const high = bitsOf(id, first)
    const low = bitsOf(id, first + digitsOfGroup / 2)
    if (high < 0 || low < 0) return false
    const at = offset + group * bytesOfGroup
    buffer[at] = high >> 12
    buffer[at + 1] = high >> 4
    buffer[at + 2] = (high << 4) | (low >> 16)
    buffer[at + 3] = low >> 8
    buffer[at + 4] = low
  }
  buffer[offset + groupsOfKey * bytesOfGroup] = 0
  return true
}

/** Four digits; what is behind the last one counts as 0. Negative: one of them is no digit. */
function bitsOf(id: string, at: number): number {
  let bits = 0
  for (let i = at; i < at + digitsOfGroup / 2; i++) {
    const digit = i < id.length ? (digitOf[id.charCodeAt(i)] ?? -1) : 0
    if (digit < 0) return -1
    bits = (bits << bitsPerDigit) | digit
  }
  return bits
}

/** As Postgres reads it; null: the text is not an id with this prefix. */
export function rowKeyOf(prefix: IdPrefix, id: string): string | null {
  const bytes = Buffer.alloc(rowKeyBytes)
  return writeRowKey(prefix, id, bytes, 0) ? bytes.toString('hex') : null
}

/** The id of a key as Postgres writes it. */
export function idOf(prefix: IdPrefix, key: string): string {
  const hex = key.replaceAll('-', '')
  let id = `${prefix}_`
  for (let at = 0; at < groupsOfKey * hexOfGroup; at += hexOfGroup / 2) {
    const bits = Number.parseInt(hex.slice(at, at + hexOfGroup / 2), 16)
    id += (digitPairs[bits >> 10] ?? '') + (digitPairs[bits & 1023] ?? '')
  }
  return id.slice(0, prefix.length + 1 + digitsOfId)
}

/** The first and the last key of ids whose number lies within these. */
export function keysWithin(first: number, last: number): readonly [first: string, last: string] {
  return [keyFrom(first, '0'), keyFrom(last, 'z')]
}

function keyFrom(number: number, fill: string): string {
  let digits = ''
  for (let rest = number, i = 0; i < 11; i++) {
    digits = alphabet.charAt(rest % 32) + digits
    rest = Math.floor(rest / 32)
  }
  return rowKeyOf('evt', `evt_${digits}${fill.repeat(12)}`) ?? ''
}
