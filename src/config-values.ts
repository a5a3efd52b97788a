import { Buffer } from 'node:buffer'
import { isIP } from 'node:net'
import { formatDuration, parseDuration } from './core/duration.ts'
import { edgeAddress } from './core/edge-address.ts'
import { relayKeyPattern } from './core/relay.ts'

/** What a setting's text means, or why it means nothing: a sentence that follows the setting's name. */
export type Reading<T> = Readonly<{ value: T }> | Readonly<{ problem: string }>

export const kib = 1024
export const mib = 1024 * kib

/** Whether only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

export type DatabaseUrl =
  | Readonly<{ kind: 'sqlite'; path: string }>
  /** `url` is for the driver: without our own `?schema=`. */
  | Readonly<{ kind: 'postgres'; url: string; schema: string }>

export function readDatabase(text: string): Reading<DatabaseUrl> {
  if (/^postgres(ql)?:/.test(text)) return readPostgres(text)
  const path = /^sqlite:(?:\/\/)?(.+)$/.exec(text)?.[1]
  if (path === undefined) {
    return { problem: 'must be sqlite: and the path of a file, like sqlite:./data/posthorn.db, or a postgres:// URL' }
  }
  if (path === ':memory:') return { problem: 'must name a file: what is in memory only is lost with the process' }
  return { value: { kind: 'sqlite', path } }
}

const schemaPattern = /^[a-z_][a-z0-9_]{0,62}$/

function readPostgres(text: string): Reading<DatabaseUrl> {
  if (!URL.canParse(text)) return { problem: 'must be like postgres://user:password@host:5432/database' }
  const url = new URL(text)
  const schema = url.searchParams.get('schema') ?? 'posthorn'
  if (!schemaPattern.test(schema) || schema.startsWith('pg_')) {
    return { problem: 'has a ?schema= that is not a plain lower-case name, like posthorn' }
  }
  if (url.pathname.length <= 1) return { problem: 'names no database: postgres://host/database' }
  url.searchParams.delete('schema')
  return { value: { kind: 'postgres', url: url.href, schema } }
}

export function readRedis(text: string): Reading<string> {
  const isUrl = /^rediss?:\/\/./.test(text) && URL.canParse(text)
  return isUrl ? { value: text } : { problem: 'must be like redis://user:password@host:6379, or rediss:// for TLS' }
}

export function readHost(text: string): Reading<string> {
  const host = /^\[(.+)\]$/.exec(text)?.[1] ?? text
  const isName = isIP(host) !== 0 || /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)
  return isName ? { value: host } : { problem: 'must be an address or a host name, without a port' }
}

export function readApiKey(text: string): Reading<string> {
  const isKey = /^[\x21-\x7e]{16,512}$/.test(text)
  return isKey ? { value: text } : { problem: 'must have 16 to 512 visible ASCII characters and no spaces' }
}

export function readUrl(text: string): Reading<string> {
  const isUrl = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
  return isUrl ? { value: text.replace(/\/+$/, '') } : { problem: 'must be an http:// or https:// address' }
}

export function readEdge(text: string): Reading<string> {
  const address = edgeAddress(text)
  return 'problem' in address ? address : { value: text.replace(/\/+$/, '') }
}

export function readRelayKey(text: string): Reading<string> {
  return relayKeyPattern.test(text)
    ? { value: text }
    : { problem: 'must be the key that `posthorn relays create` has shown: phr_…' }
}

/** `none` is for the environment, where an empty text counts as not set. */
export function readRanges(text: string): Reading<readonly string[]> {
  if (text.trim() === 'none') return { value: [] }
  const ranges = text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
  const wrong = ranges.filter((range) => !isRange(range))
  if (wrong.length === 0) return { value: ranges }
  return { problem: `must be addresses or CIDR ranges like 127.0.0.1/32,10.0.0.0/8; ${wrong.join(', ')} is neither` }
}

function isRange(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
}

export function readEncryptionKey(text: string): Reading<Uint8Array> {
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64')
  const isKey = key.length === 32 && (text.length === 64 || /^[\w+/-]{43}=?$/.test(text))
  return isKey ? { value: key } : { problem: 'must be 32 bytes, in base64 or hex (openssl rand -base64 32)' }
}

export function oneOf<const T extends string>(words: readonly T[]): (text: string) => Reading<T> {
  return (text) => {
    const word = words.find((candidate) => candidate === text)
    return word === undefined
      ? { problem: `must be one of ${words.join(', ')}, not ${JSON.stringify(text)}` }
      : { value: word }
  }
}

export function whole(min: number, max: number): (text: string) => Reading<number> {
  return (text) => {
    const isWhole = /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max
    return isWhole
      ? { value: Number(text) }
      : { problem: `must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}` }
  }
}

export function size(min: number, max: number): (text: string) => Reading<number> {
  const units: Readonly<Record<string, number>> = { '': 1, b: 1, kib: kib, mib: mib, gib: 1024 * mib }
  return (text) => {
    const [, digits = '', unit = ''] = /^(\d{1,12})\s*([a-z]*)$/i.exec(text) ?? []
    const bytes = digits === '' ? Number.NaN : Number(digits) * (units[unit.toLowerCase()] ?? Number.NaN)
    if (bytes >= min && bytes <= max) return { value: bytes }
    return {
      problem: `must be a size from ${min} to ${max} bytes, like 1048576, 512KiB or 1MiB, not ${JSON.stringify(text)}`,
    }
  }
}

export function duration(minMs: number, maxMs: number): (text: string) => Reading<number> {
  return (text) => {
    const ms = parseDuration(text)
    if (ms !== null && ms >= minMs && ms <= maxMs) return { value: ms }
    const range = `${formatDuration(minMs)} to ${formatDuration(maxMs)}`
    return { problem: `must be a duration from ${range}, like 5s or 250ms, not ${JSON.stringify(text)}` }
  }
}

/** Nothing at all is a value too: not set. */
export function optional<T>(read: (text: string) => Reading<T>): (text: string) => Reading<T | null> {
  return (text) => (text === '' ? { value: null } : read(text))
}

export function yesOrNo(text: string): Reading<boolean> {
  if (/^(?:yes|true|on|1)$/i.test(text)) return { value: true }
  return /^(?:no|false|off|0)$/i.test(text) ? { value: false } : { problem: 'must be yes or no' }
}

const broker = /^[\w.-]+:\d{1,5}$|^\[[0-9a-f:.]+\]:\d{1,5}$/i

/** Bootstrap servers: one or several, separated by commas. */
export function readBrokers(text: string): Reading<string> {
  const wrong = text.split(',').find((each) => !broker.test(each))
  return wrong === undefined ? { value: text } : { problem: 'must be host:port, or several separated by commas' }
}

export type KafkaSettings = Readonly<Record<string, string | number | boolean>>

/** Further settings of the Kafka client, such as security. */
export function readKafkaSettings(text: string): Reading<KafkaSettings> {
  const problem = 'must be a JSON object with texts, numbers and booleans, like {"security.protocol":"SASL_SSL"}'
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { problem }
    const isScalar = (each: unknown) => ['string', 'number', 'boolean'].includes(typeof each)
    return Object.values(value).every(isScalar) ? { value: value as KafkaSettings } : { problem }
  } catch {
    return { problem }
  }
}

const topicSuffix = /^[\w.-]{1,100}$/

export function readTopicSuffix(text: string): Reading<string> {
  return topicSuffix.test(text) ? { value: text } : { problem: 'must have 1 to 100 letters, digits, dots, _ or -' }
}
