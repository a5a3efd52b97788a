import { type Buffer, isUtf8 } from 'node:buffer'
import { invalidUtf8At } from './utf8.ts'

/** The bytes of one value, whitespace around it left out. */
export type Range = Readonly<{ start: number; end: number }>
export type Member = Range & Readonly<{ key: string }>
/** `position` counts bytes from 0. */
export type ScanProblem = Readonly<{ kind: 'problem'; message: string; position: number }>
export type ScannedObject = Readonly<{ kind: 'object'; members: readonly Member[] }>

export const nestingMax = 100

/**
 * Finds the members of a JSON object without turning them into values, so that a value can be passed on as the bytes
 * that were sent. All of it is checked: grammar, UTF-8, surrogates, nesting, and that no key of the object comes twice.
 */
export function scanObject(bytes: Buffer): ScannedObject | ScanProblem {
  return scanWhole(bytes, scanMembers)
}

/**
 * The same for an array, one item after the other: an array may be so large that whoever reads it has to let others
 * have their turn. Returns what is wrong with the array, if anything is; what came before that was not.
 */
export function* scanArray(bytes: Buffer): Generator<Range, ScanProblem | null> {
  if (!isUtf8(bytes)) return { kind: 'problem', message: 'is not UTF-8', position: invalidUtf8At(bytes) }
  try {
    let next = afterSpace(bytes, 0)
    if (bytes[next] !== openBracket) throw new Stop('must be an array, […]', next)
    next = afterSpace(bytes, next + 1)
    for (let isFirst = true; !isFirst || bytes[next] !== closeBracket; isFirst = false) {
      const end = afterValue(bytes, next, 1)
      yield { start: next, end }
      next = afterSpace(bytes, end)
      if (bytes[next] === closeBracket) break
      if (bytes[next] !== comma) throw unexpected(bytes, next, 'a comma or ]')
      next = afterSpace(bytes, next + 1)
    }
    refuseRest(bytes, next + 1)
    return null
  } catch (error) {
    return problemIn(error)
  }
}

/** The text of a string value that a scan has found; null when the value is not a string. */
export function stringAt(bytes: Buffer, { start, end }: Range): string | null {
  if (bytes[start] !== quote) return null
  const text = bytes.toString('utf8', start + 1, end - 1)
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text
}

/** Any value that a scan has found. */
export function valueAt(bytes: Buffer, { start, end }: Range): unknown {
  return JSON.parse(bytes.toString('utf8', start, end))
}

/** A key that comes twice in some object inside a value that a scan has found; null when there is none. */
export function repeatedKeyAt(bytes: Buffer, { start }: Pick<Range, 'start'>): string | null {
  try {
    afterUnrepeated(bytes, start)
    return null
  } catch (error) {
    return problemIn(error).message
  }
}

/** Where a value ends that a scan has found. Each byte is looked at once, however deep it is nested. */
function afterUnrepeated(bytes: Buffer, at: number): number {
  const isObject = bytes[at] === openBrace
  if (!isObject && bytes[at] !== openBracket) return afterValue(bytes, at, 0)
  const keys = new Set<string>()
  const end = isObject ? closeBrace : closeBracket
  let next = afterSpace(bytes, at + 1)
  while (bytes[next] !== end) {
    if (isObject) {
      const keyEnd = afterString(bytes, next)
      const key = stringAt(bytes, { start: next, end: keyEnd }) ?? ''
      if (keys.has(key)) throw new Stop(key, next)
      keys.add(key)
      next = afterSpace(bytes, afterSpace(bytes, keyEnd) + 1)
    }
    next = afterSpace(bytes, afterUnrepeated(bytes, next))
    if (bytes[next] === comma) next = afterSpace(bytes, next + 1)
  }
  return next + 1
}

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** Thrown and caught in this file only: a scan is deep, and the first problem ends it. */
class Stop {
  readonly message: string
  readonly position: number

  constructor(message: string, position: number) {
    this.message = message
    this.position = position
  }
}

function refuseRest(bytes: Buffer, at: number): void {
  const end = afterSpace(bytes, at)
  if (end < bytes.length) throw new Stop('has more after the end of the value', end)
}

function problemIn(error: unknown): ScanProblem {
  if (error instanceof Stop) return { kind: 'problem', message: error.message, position: error.position }
  throw error
}

function scanWhole<T>(bytes: Buffer, scan: (bytes: Buffer, at: number) => T & { end: number }): T | ScanProblem {
  if (!isUtf8(bytes)) return { kind: 'problem', message: 'is not UTF-8', position: invalidUtf8At(bytes) }
  try {
    const found = scan(bytes, afterSpace(bytes, 0))
    refuseRest(bytes, found.end)
    return found
  } catch (error) {
    return problemIn(error)
  }
}

function scanMembers(bytes: Buffer, at: number): ScannedObject & { end: number } {
  if (bytes[at] !== openBrace) throw new Stop('must be an object, {…}', at)
  const members: Member[] = []
  let keys: Set<string> | null = null
  const end = eachMember(bytes, at, 1, (keyAt, keyEnd, start, valueEnd) => {
    const key = stringAt(bytes, { start: keyAt, end: keyEnd }) ?? ''
    if (keys?.has(key) ?? hasKey(members, key)) throw new Stop(`has the key ${JSON.stringify(key)} twice`, keyAt)
    members.push({ key, start, end: valueEnd })
    if (keys !== null) keys.add(key)
    else if (members.length === fewMembers) keys = new Set(members.map((member) => member.key))
  })
  return { kind: 'object', members, end }
}

/** Up to this many a set costs more than it saves. */
const fewMembers = 12

function hasKey(members: readonly Member[], key: string): boolean {
  for (const member of members) if (member.key === key) return true
  return false
}

type MemberVisit = (keyAt: number, keyEnd: number, start: number, end: number) => void
type ItemVisit = (start: number, end: number) => void

function eachMember(bytes: Buffer, at: number, depth: number, visit: MemberVisit | null): number {
  let next = afterSpace(bytes, at + 1)
  if (bytes[next] === closeBrace) return next + 1
  for (;;) {
    const keyAt = next
    if (bytes[keyAt] !== quote) throw unexpected(bytes, keyAt, 'a key in double quotes')
    const keyEnd = afterString(bytes, keyAt)
    const colonAt = afterSpace(bytes, keyEnd)
    if (bytes[colonAt] !== colon) throw unexpected(bytes, colonAt, 'a colon')
    const start = afterSpace(bytes, colonAt + 1)
    const end = afterValue(bytes, start, depth)
    if (visit !== null) visit(keyAt, keyEnd, start, end)
    next = afterSpace(bytes, end)
    if (bytes[next] === closeBrace) return next + 1
    if (bytes[next] !== comma) throw unexpected(bytes, next, 'a comma or }')
    next = afterSpace(bytes, next + 1)
  }
}

function eachItem(bytes: Buffer, at: number, depth: number, visit: ItemVisit | null): number {
  let start = afterSpace(bytes, at + 1)
  if (bytes[start] === closeBracket) return start + 1
  for (;;) {
    const end = afterValue(bytes, start, depth)
    if (visit !== null) visit(start, end)
    const next = afterSpace(bytes, end)
    if (bytes[next] === closeBracket) return next + 1
    if (bytes[next] !== comma) throw unexpected(bytes, next, 'a comma or ]')
    start = afterSpace(bytes, next + 1)
  }
}

/** `depth` is the number of objects and arrays around the value; it bounds the recursion. */
function afterValue(bytes: Buffer, at: number, depth: number): number {
  switch (bytes[at]) {
    case quote:
      return afterString(bytes, at)
    case openBrace:
      if (depth >= nestingMax) throw tooDeep(at)
      return eachMember(bytes, at, depth + 1, null)
    case openBracket:
      if (depth >= nestingMax) throw tooDeep(at)
      return eachItem(bytes, at, depth + 1, null)
    case 0x74:
      return afterWord(bytes, at, 'true')
    case 0x66:
      return afterWord(bytes, at, 'false')
    case 0x6e:
      return afterWord(bytes, at, 'null')
    default:
      return afterNumber(bytes, at)
  }
}

function afterString(bytes: Buffer, at: number): number {
  const length = bytes.length
  let next = at + 1
  while (next < length) {
    const byte = bytes[next] as number
    if (byte === quote) return next + 1
    if (byte === backslash) next = afterEscape(bytes, next)
    else if (byte < 0x20) throw new Stop('has a control character inside a string', next)
    else next++
  }
  throw new Stop('ends inside a string', length)
}

const simpleEscapes = '"\\/bfnrt'

function afterEscape(bytes: Buffer, at: number): number {
  const letter = bytes[at + 1]
  if (letter !== 0x75) {
    if (letter === undefined || !simpleEscapes.includes(String.fromCharCode(letter))) throw badEscape(at)
    return at + 2
  }
  const unit = unitAt(bytes, at)
  if (unit >= 0xdc00 && unit <= 0xdfff) throw loneSurrogate(at)
  if (unit < 0xd800 || unit > 0xdbff) return at + 6
  // The first half of a pair: the second must follow.
  if (bytes[at + 6] !== backslash || bytes[at + 7] !== 0x75) throw loneSurrogate(at)
  const second = unitAt(bytes, at + 6)
  if (second < 0xdc00 || second > 0xdfff) throw loneSurrogate(at)
  return at + 12
}

function unitAt(bytes: Buffer, escapeAt: number): number {
  const digits = String.fromCharCode(...bytes.subarray(escapeAt + 2, escapeAt + 6))
  if (!/^[0-9a-f]{4}$/i.test(digits)) throw badEscape(escapeAt)
  return Number.parseInt(digits, 16)
}

function afterWord(bytes: Buffer, at: number, word: string): number {
  for (let i = 0; i < word.length; i++) {
    if (bytes[at + i] !== word.charCodeAt(i)) throw unexpected(bytes, at, 'a value')
  }
  return at + word.length
}

function afterNumber(bytes: Buffer, at: number): number {
  const start = bytes[at] === 0x2d ? at + 1 : at
  if (!isDigit(bytes[start])) throw unexpected(bytes, start, start === at ? 'a value' : 'a digit')
  let next = bytes[start] === 0x30 ? start + 1 : afterDigits(bytes, start)
  if (bytes[next] === 0x2e) next = afterDigits(bytes, next + 1)
  if (bytes[next] === 0x65 || bytes[next] === 0x45) {
    const sign = bytes[next + 1]
    next = afterDigits(bytes, sign === 0x2b || sign === 0x2d ? next + 2 : next + 1)
  }
  return next
}

function afterDigits(bytes: Buffer, at: number): number {
  if (!isDigit(bytes[at])) throw unexpected(bytes, at, 'a digit')
  let next = at + 1
  while (isDigit(bytes[next])) next++
  return next
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x30 && byte <= 0x39
}

function afterSpace(bytes: Buffer, at: number): number {
  let next = at
  for (;;) {
    const byte = bytes[next]
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return next
    next++
  }
}

function unexpected(bytes: Buffer, at: number, wanted: string): Stop {
  const byte = bytes[at]
  if (byte === undefined) return new Stop(`ends where ${wanted} should be`, at)
  const found = byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `byte 0x${byte.toString(16).padStart(2, '0')}`
  return new Stop(`has ${found} where ${wanted} should be`, at)
}

function tooDeep(at: number): Stop {
  return new Stop(`is nested more than ${nestingMax} levels deep`, at)
}

function badEscape(at: number): Stop {
  return new Stop('has an escape that JSON does not know', at)
}

function loneSurrogate(at: number): Stop {
  return new Stop('has half of a surrogate pair, which is no character', at)
}
