import { readFileSync } from 'node:fs'
import { z } from 'zod'
import {
  duration,
  isLoopback,
  kib,
  mib,
  oneOf,
  optional,
  type Reading,
  readApiKey,
  readBrokers,
  readDatabase,
  readEdge,
  readEncryptionKey,
  readHost,
  readKafkaSettings,
  readRanges,
  readRedis,
  readRelayKey,
  readTopicSuffix,
  readUrl,
  size,
  whole,
  yesOrNo,
} from './config-values.ts'
import { PosthornError } from './core/errors.ts'
import { didYouMean } from './core/spelling.ts'
import { withoutCredentials } from './core/url-credentials.ts'

const secondMs = 1_000
const dayMs = 86_400 * secondMs

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
  database: setting(
    'POSTHORN_DATABASE_URL',
    'sqlite:./data/posthorn.db',
    readDatabase,
    'Where events are kept: `sqlite:` and a file, or `postgres://user:password@host/database`, with `?schema=` if it is not `posthorn`.',
  ),
  redisUrl: secret(
    'POSTHORN_REDIS_URL',
    readRedis,
    'Where several processes on Postgres agree on breakers and share the live stream, if not in Postgres: `redis://…`.',
  ),
  kafkaBrokers: setting(
    'POSTHORN_KAFKA_BROKERS',
    '',
    optional(readBrokers),
    'Where consumers find Kafka or Redpanda: `host:port`, several separated by commas.',
  ),
  kafkaSettings: secret(
    'POSTHORN_KAFKA_SETTINGS',
    readKafkaSettings,
    'More for the Kafka client, as JSON with librdkafka\'s names: `{"security.protocol":"SASL_SSL", "sasl.mechanisms":"PLAIN", …}`.',
  ),
  kafkaClient: setting(
    'POSTHORN_KAFKA_CLIENT',
    '',
    optional(readPath),
    'A folder with the package `@confluentinc/kafka-javascript`, if it is not installed beside Posthorn.',
  ),
  dlqTopicSuffix: setting(
    'DLQ_TOPIC_SUFFIX',
    '.dlq',
    readTopicSuffix,
    'Of topics for dead letters: those of `orders` go to `orders.dlq`.',
  ),
  host: setting('POSTHORN_HOST', '127.0.0.1', readHost, 'Address to listen on; any but loopback needs an API key.'),
  port: setting('POSTHORN_PORT', '4800', whole(0, 65_535), 'Port to listen on; 0 takes any free one.'),
  apiKey: secret('POSTHORN_API_KEY', readApiKey, 'What clients send as `Authorization: Bearer …`.'),
  url: setting('POSTHORN_URL', 'http://127.0.0.1:4800', readUrl, 'The server that the command line talks to.'),
  edge: setting('POSTHORN_EDGE', '', optional(readEdge), 'The edge that `posthorn relay` connects to: `wss://…`.'),
  relayKey: secret('POSTHORN_RELAY_KEY', readRelayKey, 'The key that `posthorn relay` shows to its edge: `phr_…`.'),
  allowPrivate: setting(
    'POSTHORN_ALLOW_PRIVATE',
    '',
    readRanges,
    'Private ranges where endpoints may be: `10.0.0.0/8,127.0.0.1/32`, or `none`. Default: `127.0.0.0/8,::1` without `POSTHORN_API_KEY`, nothing with it.',
  ),
  encryptionKey: secret(
    'POSTHORN_ENCRYPTION_KEY',
    readEncryptionKey,
    'With SQLite by default a key file beside the database; with Postgres required, and the same in every process.',
  ),
  importKey: secret(
    'POSTHORN_IMPORT_KEY',
    readEncryptionKey,
    'Of the SQLite file that `posthorn import` reads; by default its key file.',
  ),
  logLevel: setting('POSTHORN_LOG_LEVEL', 'info', oneOf(logLevels), 'The least important lines that are logged.'),
  logFormat: setting('POSTHORN_LOG_FORMAT', 'auto', oneOf(logFormats), '`auto` is pretty on a terminal.'),
  concurrency: setting('POSTHORN_CONCURRENCY', '1000', whole(1, 100_000), 'Tries in flight, over all endpoints.'),
  eventBytesMax: setting('POSTHORN_EVENT_BYTES_MAX', '1MiB', size(kib, 64 * mib), 'The largest event.'),
  batchBytesMax: setting('POSTHORN_BATCH_BYTES_MAX', '16MiB', size(kib, 256 * mib), 'The largest batch.'),
  intakeBytesMax: setting('POSTHORN_INTAKE_BYTES_MAX', '64MiB', size(mib, 4096 * mib), 'Waiting for disk; then 503.'),
  memoryBytesMax: setting('POSTHORN_MEMORY_BYTES_MAX', '64MiB', size(mib, 4096 * mib), 'Events held for delivery.'),
  requestBytesMax: setting(
    'POSTHORN_REQUEST_BYTES_MAX',
    '64MiB',
    size(mib, 4096 * mib),
    'Bodies being read; then 503.',
  ),
  connectionsMax: setting('POSTHORN_CONNECTIONS_MAX', '10000', whole(1, 1_000_000), 'Open connections; then refused.'),
  hopsMax: setting('POSTHORN_HOPS_MAX', '10', whole(1, 1_000), 'Posthorn servers an event may pass; then 508.'),
  tenantKeysMax: setting('POSTHORN_TENANT_KEYS_MAX', '1000', whole(1, 10_000), 'API keys of one tenant; then 409.'),
  tenantRelaysMax: setting('POSTHORN_TENANT_RELAYS_MAX', '1000', whole(1, 10_000), 'Relays of one tenant; then 409.'),
  tenantEndpointsMax: setting(
    'POSTHORN_TENANT_ENDPOINTS_MAX',
    '10000',
    whole(1, 100_000),
    'Endpoints of one tenant; then 409.',
  ),
  tenantSourcesMax: setting(
    'POSTHORN_TENANT_SOURCES_MAX',
    '1000',
    whole(1, 100_000),
    'Sources of one tenant; then 409.',
  ),
  tenantReplaysMax: setting(
    'POSTHORN_TENANT_REPLAYS_MAX',
    '20',
    whole(1, 100),
    'Running replays of one tenant; then 409.',
  ),
  tenantStreamsMax: setting(
    'POSTHORN_TENANT_STREAMS_MAX',
    '20',
    whole(1, 200),
    'Listeners of the stream with keys of one tenant; then 429.',
  ),
  tenantTestsMax: setting(
    'POSTHORN_TENANT_TESTS_MAX',
    '5',
    whole(1, 100),
    'Endpoint tests at once with keys of one tenant; then 429.',
  ),
  publicPort: setting(
    'POSTHORN_PUBLIC_PORT',
    '',
    optional(whole(0, 65_535)),
    'A second port, open to all, for `/in/*` and hubs alone.',
  ),
  publicHost: setting('POSTHORN_PUBLIC_HOST', '0.0.0.0', readHost, 'Where the public port listens.'),
  handlers: setting('POSTHORN_HANDLERS', '', optional(readPath), 'A module of handlers to run inside the server.'),
  paused: setting('POSTHORN_PAUSED', 'no', yesOrNo, '`yes` takes events in and delivers none: for after a restore.'),
  upkeepEveryMs: setting('POSTHORN_UPKEEP_EVERY', '1h', duration(secondMs, dayMs), 'How often it tidies up.'),
  upkeepAfterMs: setting('POSTHORN_UPKEEP_AFTER', '10m', duration(0, dayMs), 'Not before this, after a start.'),
  keepDeliveredMs: setting('POSTHORN_KEEP_DELIVERED', '7d', duration(secondMs, 3_650 * dayMs), 'Since the delivery.'),
  keepFailedMs: setting('POSTHORN_KEEP_FAILED', '7d', duration(secondMs, 3_650 * dayMs), 'Since the last attempt.'),
  keepDeadLetterMs: setting(
    'POSTHORN_KEEP_DEAD_LETTER',
    '14d',
    duration(secondMs, 3_650 * dayMs),
    'Since the receipt.',
  ),
  keepEventMs: setting('POSTHORN_KEEP_EVENT', '7d', duration(secondMs, 3_650 * dayMs), 'An event that went to nobody.'),
  keepReplayMs: setting('POSTHORN_KEEP_REPLAY', '30d', duration(secondMs, 3_650 * dayMs), 'A replay that has ended.'),
  laneStuckMs: setting(
    'POSTHORN_LANE_STUCK',
    '15m',
    duration(secondMs, dayMs),
    'A lane held for longer is told about.',
  ),
  relayAwayMs: setting(
    'POSTHORN_RELAY_AWAY_AFTER',
    '5m',
    duration(secondMs, 30 * dayMs),
    'A hub that is away for longer is told about.',
  ),
  backlogMax: setting(
    'POSTHORN_BACKLOG_MAX',
    '100000',
    whole(1, 999_999_999),
    'More waiting deliveries are told about.',
  ),
  metricsEndpointsMax: setting(
    'POSTHORN_METRICS_ENDPOINTS_MAX',
    '100',
    whole(0, 10_000),
    'Endpoints with metrics of their own; the others are counted together.',
  ),
  graceMs: setting('POSTHORN_GRACE', '10s', duration(0, 600 * secondMs), 'What a shutdown grants tries in flight.'),
  retryBaseDelayMs: setting('RETRY_BASE_DELAY', '5s', duration(1, dayMs), 'Of the `processing` preset.'),
  retryMaxDelayMs: setting('RETRY_MAX_DELAY', '300s', duration(1, dayMs), 'Of the `processing` preset.'),
  maxAttempts: setting('MAX_ATTEMPTS', '5', whole(1, 1_000), 'Of the `processing` preset.'),
} as const

/** Open to endpoints where no key is set: only this machine is served then, and it can reach its loopback anyway. */
const allowPrivateWithoutKey = '127.0.0.0/8,::1'

type Settings = typeof settings
export type SettingName = keyof Settings
/** As it is called in the file, as a flag and in code: without the unit. */
export type PublicName = PublicNameOf<SettingName>
export type PublicNameOf<N extends SettingName> = N extends `${infer Stem}Ms` ? Stem : N
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
  /** In camel case: what is the default here instead of the one in the table. */
  fallbacks?: Readonly<Partial<Record<PublicName, string>>>
  /** What a flag is called where the caller's own people write it; by default it is a flag of the command line. */
  flagName?: (name: string) => string
}>

const names = Object.keys(settings) as SettingName[]
/** In the file and as a flag a duration is a text with its unit. */
const publicName = (name: SettingName) => name.replace(/Ms$/, '') as PublicName
export const publicNames: readonly string[] = names.map(publicName)

/** The environment of this process, for those who are not started from a command line. */
export function processEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env
}

/** Flag, else environment, else file, else default. Throws `config_invalid`, which lists every problem there is. */
export function loadConfig(input: ConfigInput): Config {
  const problems: string[] = unknownNames(input.env)
  const file = readConfigFile(input, problems)
  const given = Object.fromEntries(
    names.map((name) => {
      const label = publicName(name)
      const text = { flag: input.flags[label], env: fromEnvironment(input.env, settings[name].env), file: file[label] }
      const origin = (['flag', 'env', 'file'] as const).find((from) => text[from] !== undefined) ?? 'default'
      const fallback = input.fallbacks?.[label] ?? settings[name].fallback
      return [name, { text: origin === 'default' ? fallback : (text[origin] ?? null), origin }]
    }),
  ) as Record<SettingName, Given>
  if (given.apiKey.text === null && given.allowPrivate.origin === 'default' && !input.fallbacks?.allowPrivate) {
    given.allowPrivate = { text: allowPrivateWithoutKey, origin: 'default' }
  }
  const parsed = schema.safeParse(Object.fromEntries(names.map((name) => [name, given[name].text])))
  for (const { path, message } of parsed.error?.issues ?? []) {
    const name = path[0] as SettingName
    problems.push(`${placeOf(name, given[name].origin, input.flagName)} ${message}`)
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
    const shown = text === null ? '' : settings[name].secret ? '•••' : withoutCredentials(text)
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

\`posthorn relay\` and \`posthorn listen\` connect through the proxy that \`HTTPS_PROXY\` (for \`wss\`), \`HTTP_PROXY\` (for \`ws\`) or
\`ALL_PROXY\` names, but for hosts in \`NO_PROXY\`.
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

function readPath(text: string): Reading<string> {
  return text.trim() === text ? { value: text } : { problem: 'must be a path without spaces around it' }
}

function setting<T>(env: string, fallback: string, read: Setting<T>['read'], about: string): Setting<T> {
  return { env, fallback, about, secret: false, read }
}

function secret<T>(env: string, read: Setting<T>['read'], about: string): Setting<T | null> {
  return { env, fallback: null, about, secret: true, read }
}

/**
 * What Kubernetes sets for a service called posthorn: `POSTHORN_PORT=tcp://10.0.0.1:4800` and a few more; and where the
 * tests of Posthorn find their databases.
 */
const isForOthers = /^POSTHORN_(SERVICE_|PORT_|TEST_)/
const serviceAddress = /^(?:tcp|udp|sctp):\/\//

function fromEnvironment(env: ConfigInput['env'], name: string): string | undefined {
  const text = env[name]
  return !text || (name.endsWith('_PORT') && serviceAddress.test(text)) ? undefined : text
}

function unknownNames(env: ConfigInput['env']): string[] {
  const known = [...names.map((name) => settings[name].env), 'POSTHORN_CONFIG']
  return Object.keys(env)
    .filter((name) => name.startsWith('POSTHORN_') && !known.includes(name) && !isForOthers.test(name))
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

function placeOf(name: SettingName, origin: Origin, flagName = commandLineFlag): string {
  if (origin === 'flag') return flagName(publicName(name))
  return origin === 'file' ? `${publicName(name)} in the file` : settings[name].env
}

function commandLineFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
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
