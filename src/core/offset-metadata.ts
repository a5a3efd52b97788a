/** Offsets from `from` up to, and without, `to`. */
export type OffsetRange = Readonly<{ from: number; to: number }>

/** What a broker keeps beside an offset by default (`offset.metadata.max.bytes`), less one. */
export const metadataBytesMax = 4_095

/** Of our making, in its first version. */
const magic = 'ph1'
const rangesKind = 'r'
const bitsKind = 'b'

/**
 * What is done above a committed offset, as text for the metadata of that commit. What does not fit is left out from the
 * top: those records are processed again after a restart. `done` ascends; nothing done: no text.
 *
 * The text names the offset that it belongs to. A tool that copies the metadata to another offset would otherwise make
 * us skip records that nobody has processed.
 */
export function encodeDone(offset: number, done: readonly OffsetRange[], bytesMax = metadataBytesMax): string {
  if (done.length === 0) return ''
  const head = (kind: string) => `${magic}.${kind}.${offset.toString(36)}.`
  // Base64 makes four characters of three bytes.
  const room = Math.floor((bytesMax - head(rangesKind).length) / 4) * 3
  const ranges = asRanges(offset, done, room)
  const bits = asBits(offset, done, room)
  const areRangesBetter =
    ranges.count > bits.count || (ranges.count === bits.count && ranges.bytes.length <= bits.bytes.length)
  const [kind, best] = areRangesBetter ? [rangesKind, ranges] : [bitsKind, bits]
  return best.count === 0 ? '' : head(kind) + btoa(String.fromCharCode(...best.bytes))
}

/** What is done above this committed offset. Metadata of others, or of another offset, says nothing. */
export function decodeDone(offset: number, metadata: string | null): readonly OffsetRange[] {
  const [found, kind, base, text, ...rest] = (metadata ?? '').split('.')
  if (found !== magic || base !== offset.toString(36) || text === undefined || rest.length > 0) return []
  const bytes = bytesOf(text)
  if (bytes === null) return []
  if (kind === bitsKind) return fromBits(offset, bytes)
  return kind === rangesKind ? fromRanges(offset, bytes) : []
}

/** `count`: how many offsets it tells. */
type Encoded = Readonly<{ bytes: readonly number[]; count: number }>

/** By turns: how many are not done, how many are. */
function asRanges(offset: number, done: readonly OffsetRange[], room: number): Encoded {
  const bytes: number[] = []
  let count = 0
  let at = offset
  for (const { from, to } of done) {
    const pair = [...varint(from - at), ...varint(to - from)]
    if (bytes.length + pair.length > room) break
    bytes.push(...pair)
    count += to - from
    at = to
  }
  return { bytes, count }
}

function fromRanges(offset: number, bytes: Uint8Array): readonly OffsetRange[] {
  const lengths = varintsOf(bytes)
  if (lengths === null || lengths.length % 2 !== 0) return []
  const ranges: OffsetRange[] = []
  let at = offset
  for (let pair = 0; pair < lengths.length; pair += 2) {
    const from = at + (lengths[pair] ?? 0)
    at = from + (lengths[pair + 1] ?? 0)
    ranges.push({ from, to: at })
  }
  return Number.isSafeInteger(at) ? ranges.filter(({ from, to }) => from < to) : []
}

/** One bit for each offset, the lowest first. */
function asBits(offset: number, done: readonly OffsetRange[], room: number): Encoded {
  const end = offset + room * 8
  const last = done.findLast(({ from }) => from < end)
  if (last === undefined) return { bytes: [], count: 0 }
  const bytes = new Array<number>(Math.ceil((Math.min(last.to, end) - offset) / 8)).fill(0)
  let count = 0
  for (const { from, to } of done) {
    for (let bit = from - offset; bit < Math.min(to, end) - offset; bit++) {
      bytes[bit >>> 3] = (bytes[bit >>> 3] ?? 0) | (1 << (bit & 7))
      count += 1
    }
  }
  return { bytes, count }
}

function fromBits(offset: number, bytes: Uint8Array): readonly OffsetRange[] {
  const ranges: OffsetRange[] = []
  let from: number | null = null
  // One beyond the end, which ends the last range.
  for (let bit = 0; bit <= bytes.length * 8; bit++) {
    const isDone = (((bytes[bit >>> 3] ?? 0) >>> (bit & 7)) & 1) === 1
    if (isDone) from ??= offset + bit
    if (isDone || from === null) continue
    ranges.push({ from, to: offset + bit })
    from = null
  }
  return ranges
}

/** Seven bits a byte, the lowest first; the highest bit says that more follow. */
function varint(value: number): readonly number[] {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  return [...bytes, rest]
}

/** null: it ends in the middle of a number. */
function varintsOf(bytes: Uint8Array): readonly number[] | null {
  const values: number[] = []
  let value = 0
  let unit = 1
  for (const byte of bytes) {
    value += (byte % 128) * unit
    unit *= 128
    if (byte >= 128) continue
    values.push(value)
    value = 0
    unit = 1
  }
  return unit === 1 ? values : null
}

function bytesOf(base64: string): Uint8Array | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return null
  }
}
