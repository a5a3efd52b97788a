/**
 * Ids are a prefix, a number that grows with time and 60 random bits, in Crockford's base 32: they sort by age, cannot
 * be guessed, and a store may use the number as its row key.
 */
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const numberLength = 11
const randomLength = 12
const epochMs = Date.UTC(2024, 0, 1)
const numbersPerMs = 4096
/** From here on ids only count, and still sort by age: a clock further ahead would need larger numbers than there are. */
const clockEndsAt = Date.UTC(2090, 0, 1)

export type IdPrefix = 'evt' | 'dlv' | 'ep' | 'req' | 'src' | 'key' | 'rpl' | 'rly'

/** The next number after `last`: grows with the clock, and still grows when the clock stands still or goes back. */
export function numberAfter(last: number, now: number): number {
  const byClock = Math.max(0, Math.min(now, clockEndsAt) - epochMs) * numbersPerMs
  return byClock > last ? byClock : last + 1
}

/** Every pair of digits, by its ten bits. Ids are put together from these: one is made for every event and delivery. */
export const digitPairs: readonly string[] = Array.from(
  { length: 1024 },
  (_, pair) => alphabet.charAt(pair >> 5) + alphabet.charAt(pair & 31),
)
const lowDigits = 2 ** 30

/** `random` holds twelve or more random bytes, of which five bits each are used. */
export function formatId(prefix: IdPrefix, number: number, random: Uint8Array): string {
  const high = Math.floor(number / lowDigits)
  const low = number % lowDigits
  let text = `${prefix}_${alphabet.charAt(high >> 20)}${pairOf(high >> 10)}${pairOf(high)}`
  text += pairOf(low >> 20) + pairOf(low >> 10) + pairOf(low)
  for (let i = 0; i < randomLength; i += 2) text += pairOf(((random[i] ?? 0) << 5) | ((random[i + 1] ?? 0) & 31))
  return text
}

function pairOf(bits: number): string {
  return digitPairs[bits & 1023] ?? ''
}

/** The number inside an id, or null when the text is not an id with that prefix. */
export function numberOf(prefix: IdPrefix, id: string): number | null {
  if (id.length !== prefix.length + 1 + numberLength + randomLength || !id.startsWith(`${prefix}_`)) return null
  let number = 0
  for (let i = 0; i < numberLength + randomLength; i++) {
    const digit = alphabet.indexOf(id.charAt(prefix.length + 1 + i))
    if (digit < 0) return null
    if (i < numberLength) number = number * 32 + digit
  }
  return Number.isSafeInteger(number) ? number : null
}

/** Fewer digits are no id: they could mean anything that was made within a quarter of a second. */
const shortDigitsMin = 8
const shortId = new RegExp(`^([a-z]{2,3})_[${alphabet}]{${shortDigitsMin},${numberLength + randomLength - 1}}$`)

/** The prefix of a text that is the beginning of an id; null for a whole id, or when too much of it is missing. */
export function shortIdPrefix(text: string): string | null {
  return shortId.exec(text)?.[1] ?? null
}

/** The first and the last number that an id with this beginning can hold. */
export function numbersBeginning(text: string): readonly [first: number, last: number] {
  const digits = text.slice(text.indexOf('_') + 1, text.indexOf('_') + 1 + numberLength)
  const first = [...digits.padEnd(numberLength, '0')].reduce((sum, digit) => sum * 32 + alphabet.indexOf(digit), 0)
  return [first, first + 32 ** (numberLength - digits.length) - 1]
}
