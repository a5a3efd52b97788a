import { Buffer } from 'node:buffer'
import { type Config, loadConfig, processEnvironment, publicNames } from '../config.ts'
import type { Ordering } from '../core/endpoint.ts'
import type { PresetName } from '../core/retry-policy.ts'
import { didYouMean } from '../core/spelling.ts'
import type { HandlerTable } from './handler-table.ts'
import { invalid } from './reading.ts'

/** `'5s'`, `'250ms'`, `'2h'`, or a number of milliseconds. */
export type DurationOption = string | number

type RetryLimits = Readonly<{
  /** A ratio from 0 to 1, or a duration that is added at most. */
  jitter?: string | number
  /** Tries in all; null: no limit. */
  maxAttempts?: number | null
  /** null: for ever. */
  maxAge?: DurationOption | null
}>

/** A preset, a preset with changes, or a policy of your own. */
export type RetryOption =
  | PresetName
  | (RetryLimits &
      Readonly<{
        preset: PresetName
        baseDelay?: DurationOption
        multiplier?: number
        maxDelay?: DurationOption
        delays?: readonly DurationOption[]
      }>)
  | (RetryLimits &
      Readonly<{ strategy: 'exponential'; baseDelay: DurationOption; multiplier?: number; maxDelay?: DurationOption }>)
  | (RetryLimits & Readonly<{ strategy: 'schedule'; delays: readonly DurationOption[] }>)

export type BreakerOption =
  | Readonly<{ threshold?: number; cooldown?: DurationOption; whenOpen?: 'park' | 'fail' }>
  | false

type RuleOptions = Readonly<{
  tenant?: string
  description?: string
  ordering?: Ordering
  concurrency?: number
  rateLimit?: Readonly<{ perSecond: number }> | null
  timeout?: DurationOption
  retry?: RetryOption
  breaker?: BreakerOption
}>

export type HandleOptions = RuleOptions &
  Readonly<{
    /** What the handler's deliveries are found again by after a restart; by default the types, joined. */
    name?: string
    /** `process` is not there yet. */
    engine?: 'async' | 'process'
  }>

/** What `endpoints.update` changes. */
export type EndpointChangeOptions = Omit<RuleOptions, 'tenant'> &
  Readonly<{
    url?: string
    types?: readonly string[]
    classify?: Readonly<Record<string, 'permanent' | 'retryable'>>
    headers?: Readonly<Record<string, string>>
    /** Sends on the headers that a source kept. */
    forwardHeaders?: boolean
    /** With nothing but failures for this long it is disabled; false: never. */
    disableAfter?: DurationOption | false
  }>

export type EndpointOptions = EndpointChangeOptions & Readonly<{ url: string; tenant?: string; secret?: string }>

/** Every setting of docs/configuration.md by the name that it has in the file; here are those that are used most. */
export type PosthornOptions = Readonly<{
  /** `sqlite:./posthorn.db` */
  database?: string
  /** Private ranges where endpoints may be, like `127.0.0.1/32`. */
  allowPrivate?: string | readonly string[]
  /** 32 bytes, or the same as base64 or hex. */
  encryptionKey?: string | Uint8Array
  /** Tries in flight, over all endpoints and handlers. */
  concurrency?: number
  /** `warn` by default. */
  logLevel?: Config['logLevel']
  logFormat?: Config['logFormat']
  /** What `close` grants tries in flight. */
  grace?: DurationOption
  retryBaseDelay?: DurationOption
  retryMaxDelay?: DurationOption
  maxAttempts?: number
  eventBytesMax?: string | number
  batchBytesMax?: string | number
  memoryBytesMax?: string | number
  intakeBytesMax?: string | number
  /** Handlers by type, as a handlers module exports them. */
  handlers?: HandlerTable
  /** Opens the server too; nothing listens without it. */
  serve?: Readonly<{ port?: number; host?: string; apiKey?: string }>
  /** The store has ended by a defect: nothing can be kept any more. By default it is logged. */
  onFatal?: (error: Error) => void
}>

const ownOptions = ['handlers', 'serve', 'onFatal']

/** Options win over the environment; a problem is told by the name of the option. */
export function configOf(options: PosthornOptions): Config {
  const known = [...publicNames, ...ownOptions]
  const unknown = Object.keys(options).filter((name) => !known.includes(name))
  if (unknown.length > 0) {
    const errors = unknown.map((name) => ({ path: name, message: `is not an option${didYouMean(name, known)}` }))
    throw invalid('The options of openPosthorn', errors)
  }
  const env = processEnvironment()
  const { handlers: _, serve, onFatal: __, ...settings } = options
  const quiet = env.POSTHORN_LOG_LEVEL === undefined ? { logLevel: 'warn' } : {}
  const flags = Object.entries({ ...quiet, ...settings, ...serve }).map(([name, value]) => [name, textOf(value)])
  return loadConfig({ flags: Object.fromEntries(flags), env, flagName: (name) => name })
}

function textOf(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  return Array.isArray(value) ? value.join(',') : String(value)
}
