import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { z } from 'zod'
import { formatDuration, parseDuration } from './core/duration.ts'
import { PosthornError } from './core/errors.ts'
import { didYouMean } from './core/spelling.ts'

const secondMs = 1_000
const kib = 1024
const dayMs = 86_400 * secondMs
const mib = 1024 * kib

/** What a setting's text means, or why it means nothing: a sentence that follows the setting's name. */
type Reading<T> = Readonly<{ value: T }> | Readonly<{ problem: string }>
type Setting<T> = Readonly<{
  env: string
  /** As a person would write it; null: not set. */
  fallback: string | null
  about: string
  secret: boolean
  read: (text: string) => Reading<T>
}>

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const logFormats = ['auto', 'json', 'pretty'] as const

const settings = {
  database: setting('POSTHORN_DATABASE_URL', 'sqlite:./data/posthorn.db', readDatabase, 'Where events are kept.'),
  host: setting('POSTHORN_HOST', '127.0.0.1', readHost, 'Address to listen on; any but loopback needs an API key.'),
  port: setting('POSTHORN_PORT', '4800', whole(0, 65_535), 'Port to listen on; 0 takes any free one.'),
  apiKey: secret('POSTHORN_API_KEY', readApiKey, 'What clients send as `Authorization: Bearer …`.'),
  url: setting('POSTHORN_URL', 'http://127.0.0.1:4800', readUrl, 'The server that the command line talks to.'),
  allowPrivate: setting(
    'POSTHORN_ALLOW_PRIVATE',
    '',
    readRanges,
    'Private ranges where endpoints may be: `127.0.0.1/32,…`.',
  ),
  encryptionKey: secret('POSTHORN_ENCRYPTION_KEY', readEncryptionKey, 'By default a key file beside the database.'),
  logLevel: setting('POSTHORN_LOG_LEVEL', 'info', oneOf(logLevels), 'The least important lines that are logged.'),
  logFormat: setting('POSTHORN_LOG_FORMAT', 'auto', oneOf(logFormats), '`auto` is pretty on a terminal.'),
  concurrency: setting('POSTHORN_CONCURRENCY', '1000', whole(1, 100_000), 'Tries in flight, over all endpoints.'),
  eventBytesMax: setting('POSTHORN_EVENT_BYTES_MAX', '1MiB', size(kib, 64 * mib), 'The largest event.'),
  batchBytesMax: setting('POSTHORN_BATCH_BYTES_MAX', '16MiB', size(kib, 256 * mib), 'The largest batch.'),
  intakeBytesMax: setting('POSTHORN_INTAKE_BYTES_MAX', '64MiB', size(mib, 4096 * mib), 'Waiting for disk; then 503.'),
  memoryBytesMax: setting('POSTHORN_MEMORY_BYTES_MAX', '64MiB', size(mib, 4096 * mib), 'Events held for delivery.'),
  graceMs: setting('POSTHORN_GRACE', '10s', duration(0, 600 * secondMs), 'What a shutdown grants tries in flight.'),
  retryBaseDelayMs: setting('RETRY_BASE_DELAY', '5s', duration(1, dayMs), 'Of the `processing` preset.'),
  retryMaxDelayMs: setting('RETRY_MAX_DELAY', '300s', duration(1, dayMs), 'Of the `processing` preset.'),
  maxAttempts: setting('MAX_ATTEMPTS', '5', whole(1, 1_000), 'Of the `processing` preset.'),
} as const

type Settings = typeof settings
export type SettingName = keyof Settings
export type Origin = 'flag' | 'env' | 'file' | 'default'
type Given = Readonly<{ text: string | null; origin: Origin }>

/** Everything that can be set, checked, in the form that the code uses; and where each value came from. */
export type Config = Readonly<{ [N in SettingName]: Settings[N] extends Setting<infer T> ? T : never }> &
  Readonly<{ given: Readonly<Record<SettingName, Given>> }>

export type ConfigInput = Readonly<{
  /** In camel case; what is not a setting is the caller's own. */
  flags: Readonly<Record<string, string | undefined>>
  env: Readonly<Record<string, string | undefined>>
  readFile?: (path: string) => string
}>

const names = Object.keys(settings) as SettingName[]
/** In the file and as a flag a duration is a text with its unit. */
const publicName = (name: SettingName) => name.replace(/Ms$/, '')
const publicNames = names.map(publicName)

/** Flag, else environment, else file, else default. Throws `config_invalid`, which lists every problem there is. */
export function loadConfig(input: ConfigInput): Config {
  const problems: string[] = unknownNames(input.env)
  const file = readConfigFile(input, problems)
  const given = Object.fromEntries(
    names.map((name) => {
      const label = publicName(name)
      const text = { flag: input.flags[label], env: input.env[settings[name].env] || undefined, file: file[label] }
      const origin = (['flag', 'env', 'file'] as const).find((from) => text[from] !== undefined) ?? 'default'
      return [name, { text: origin === 'default' ? settings[name].fallback : (text[origin] ?? null), origin }]
    }),
  ) as Record<SettingName, Given>
  const parsed = schema.safeParse(Object.fromEntries(names.map((name) => [name, given[name].text])))
  for (const { path, message } of parsed.error?.issues ?? []) {
    const name = path[0] as SettingName
    problems.push(`${placeOf(name, given[name].origin)} ${message}`)
  }
  const config = { ...parsed.data, given } as Config
  if (parsed.success) problems.push(...clashes(config))
  if (problems.length > 0) {
    throw new PosthornError('config_invalid', ['The configuration is not valid:', ...problems].join('\n  '))
  }
  return Object.freeze(config)
}

export type ConfigRow = Readonly<{ name: string; env: string; value: string; origin: Origin }>

/** For `config show`: secrets are never shown. */
export function describeConfig(config: Config): readonly ConfigRow[] {
  return names.map((name) => {
    const { text, origin } = config.given[name]
    const shown = text === null ? '' : settings[name].secret ? '•••' : text
    return { name: publicName(name), env: settings[name].env, value: shown, origin }
  })
}

/** docs/configuration.md; a test keeps the file and this function equal. */
export function configurationPage(): string {
  const rows = names.map((name) => {
    const { env, fallback, about } = settings[name]
    return `| \`${env}\` | \`${publicName(name)}\` | ${fallback ? `\`${fallback}\`` : ''} | ${about} |`
  })
  return `# Configuration

<!-- Written by configurationPage() in src/config.ts; its test says how to write it again. -->

A flag wins over the environment, the environment over the file, the file over the default. A flag has the name in the
file, with dashes (\`--log-level\`); secrets have none, because others can read a command line. The file is JSON (\`{"port": 4801, "logLevel": "debug"}\`), named by \`--config\` or
\`POSTHORN_CONFIG\`. \`posthorn config show\` tells each value and where it came from. Posthorn does not start with a value
that makes no sense or a \`POSTHORN_…\` name that it does not know: it names them all and ends with status 2.

| environment | file | default | |
| --- | --- | --- | --- |
${rows.join('\n')}

Sizes read \`1048576\`, \`512KiB\` or \`1MiB\`; durations \`250ms\`, \`5s\`, \`10m\`, \`2h\`, \`7d\`, or a number of milliseconds.
`
}

const schema = z.object(
  Object.fromEntries(
    names.map((name) => {
      const { read } = settings[name] as Setting<unknown>
      const field = z.string().transform((text, ctx) => {
        const reading = read(text)
        if ('value' in reading) return reading.value
        ctx.addIssue(reading.problem)
        return z.NEVER
      })
      return [name, settings[name].fallback === null ? field.nullable() : field]
    }),
  ),
)

function setting<T>(env: string, fallback: string, read: Setting<T>['read'], about: string): Setting<T> {
  return { env, fallback, about, secret: false, read }
}

function secret<T>(env: string, read: Setting<T>['read'], about: string): Setting<T | null> {
  return { env, fallback: null, about, secret: true, read }
}

/** What Kubernetes sets for a service called posthorn. */
const serviceLink = /^POSTHORN_(SERVICE_|PORT_)/

function unknownNames(env: ConfigInput['env']): string[] {
  const known = [...names.map((name) => settings[name].env), 'POSTHORN_CONFIG']
  return Object.keys(env)
    .filter((name) => name.startsWith('POSTHORN_') && !known.includes(name) && !serviceLink.test(name))
    .map((name) => `${name} is not a setting${didYouMean(name, known)}`)
}

function readConfigFile(input: ConfigInput, problems: string[]): Readonly<Record<string, string>> {
  const path = input.flags.config ?? (input.env.POSTHORN_CONFIG || undefined)
  if (path === undefined) return {}
  const text: Record<string, string> = {}
  for (const [name, value] of Object.entries(parseFile(path, input.readFile, problems))) {
    if (!publicNames.includes(name)) problems.push(`${path}: ${name} is not a setting${didYouMean(name, publicNames)}`)
    else if (typeof value === 'string' || typeof value === 'number') text[name] = String(value)
    else if (Array.isArray(value) && value.every((item) => typeof item === 'string')) text[name] = value.join(',')
    else problems.push(`${path}: ${name} must be a text, a number or a list of texts`)
  }
  return text
}

function parseFile(path: string, readFile: ConfigInput['readFile'], problems: string[]): object {
  try {
    const value: unknown = JSON.parse((readFile ?? ((name) => readFileSync(name, 'utf8')))(path))
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
    problems.push(`${path}: must be a JSON object`)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    problems.push(`${path}: cannot be read as JSON: ${why}`)
  }
  return {}
}

function placeOf(name: SettingName, origin: Origin): string {
  if (origin === 'flag') return `--${publicName(name).replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
  return origin === 'file' ? `${publicName(name)} in the file` : settings[name].env
}

function clashes(config: Config): string[] {
  const found: string[] = []
  if (config.apiKey === null && !isLoopback(config.host)) {
    found.push(
      `POSTHORN_HOST ${config.host} is open to other machines, which needs a key: set POSTHORN_API_KEY, or listen on 127.0.0.1`,
    )
  }
  if (config.batchBytesMax < config.eventBytesMax) {
    found.push('POSTHORN_BATCH_BYTES_MAX must not be smaller than POSTHORN_EVENT_BYTES_MAX')
  }
  return found
}

/** Whether only this machine can reach the address. */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

function readDatabase(text: string): Reading<Readonly<{ kind: 'sqlite'; path: string }>> {
  if (/^postgres(ql)?:/.test(text))
    return { problem: 'names a Postgres database, which Posthorn cannot use yet; use sqlite:' }
  const path = /^sqlite:(?:\/\/)?(.+)$/.exec(text)?.[1]
  if (path === undefined) return { problem: 'must be sqlite: and the path of a file, like sqlite:./data/posthorn.db' }
  if (path === ':memory:') return { problem: 'must name a file: what is in memory only is lost with the process' }
  return { value: { kind: 'sqlite', path } }
}

function readHost(text: string): Reading<string> {
  const host = /^\[(.+)\]$/.exec(text)?.[1] ?? text
  const isName = isIP(host) !== 0 || /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(host)
  return isName ? { value: host } : { problem: 'must be an address or a host name, without a port' }
}

function readApiKey(text: string): Reading<string> {
  const isKey = /^[\x21-\x7e]{16,512}$/.test(text)
  return isKey ? { value: text } : { problem: 'must have 16 to 512 visible ASCII characters and no spaces' }
}

function readUrl(text: string): Reading<string> {
  const isUrl = URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
  return isUrl ? { value: text.replace(/\/+$/, '') } : { problem: 'must be an http:// or https:// address' }
}

function readRanges(text: string): Reading<readonly string[]> {
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

function readEncryptionKey(text: string): Reading<Uint8Array> {
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64')
  const isKey = key.length === 32 && (text.length === 64 || /^[\w+/-]{43}=?$/.test(text))
  return isKey ? { value: key } : { problem: 'must be 32 bytes, in base64 or hex (openssl rand -base64 32)' }
}

function oneOf<const T extends string>(words: readonly T[]): (text: string) => Reading<T> {
  return (text) => {
    const word = words.find((candidate) => candidate === text)
    return word === undefined
      ? { problem: `must be one of ${words.join(', ')}, not ${JSON.stringify(text)}` }
      : { value: word }
  }
}

function whole(min: number, max: number): (text: string) => Reading<number> {
  return (text) => {
    const isWhole = /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max
    return isWhole
      ? { value: Number(text) }
      : { problem: `must be a whole number from ${min} to ${max}, not ${JSON.stringify(text)}` }
  }
}

function size(min: number, max: number): (text: string) => Reading<number> {
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

function duration(minMs: number, maxMs: number): (text: string) => Reading<number> {
  return (text) => {
    const ms = parseDuration(text)
    if (ms !== null && ms >= minMs && ms <= maxMs) return { value: ms }
    const range = `${formatDuration(minMs)} to ${formatDuration(maxMs)}`
    return { problem: `must be a duration from ${range}, like 5s or 250ms, not ${JSON.stringify(text)}` }
  }
}
