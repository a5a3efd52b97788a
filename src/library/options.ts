import { Buffer } from 'node:buffer'
import {
  type Config,
  loadConfig,
  type PublicNameOf,
  processEnvironment,
  publicNames,
  type SettingName,
} from '../config.ts'
import type { Ordering } from '../core/endpoint.ts'
import type { PresetName } from '../core/retry-policy.ts'
import { didYouMean } from '../core/spelling.ts'
import type { FieldError } from '../server/problem.ts'
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
    tenant?: string
    /** What the handler's deliveries are found again by after a restart; by default the types, joined. */
    name?: string
    /** `process` runs a module in processes of its own, `async` (the default) runs it here. */
    engine?: 'async' | 'process'
    /** Processes at most, with the engine `process`; by default as many as there are cores, up to `concurrency`. */
    workers?: number
    /** What the module calls the handler; by default `default`. */
    export?: string
  }>

type SentOptions = RuleOptions &
  Readonly<{
    types?: readonly string[]
    classify?: Readonly<Record<string, 'permanent' | 'retryable'>>
    headers?: Readonly<Record<string, string>>
  }>

type HttpOptions = Readonly<{
  /** Sends on the headers that a source kept. */
  forwardHeaders?: boolean
  /** With nothing but failures for this long it is disabled; false: never. */
  disableAfter?: DurationOption | false
}>

/** What `endpoints.update` changes. */
export type EndpointChangeOptions = SentOptions &
  HttpOptions &
  Readonly<{
    url?: string
    /** Of an endpoint of the kind relay: the relay's name, and what its hub calls the target. */
    relay?: string
    route?: string
  }>

type Whose = Readonly<{ tenant?: string; secret?: string }>

type HttpEndpointOptions = SentOptions & HttpOptions & Whose & Readonly<{ kind?: 'http'; url: string }>

type RelayEndpointOptions = SentOptions & Whose & Readonly<{ kind: 'relay'; relay: string; route: string }>

export type EndpointOptions = HttpEndpointOptions | RelayEndpointOptions

/** Every setting of docs/configuration.md by the name that it has in the file. `logLevel` is `warn` by default, `allowPrivate` is `none`. */
type SettingOptions = Readonly<{
  [N in Exclude<SettingName, 'handlers'> as PublicNameOf<N>]?: N extends `${string}Ms`
    ? DurationOption
    : SettingOption<NonNullable<Config[N]>>
}>

/** What is a text in the file may be what it stands for. */
type SettingOption<T> = [T] extends [boolean]
  ? boolean | 'yes' | 'no'
  : T extends number
    ? number | string
    : T extends Uint8Array
      ? Uint8Array | string
      : T extends readonly string[]
        ? string | readonly string[]
        : T extends string
          ? T
          : string

const serveNames = ['port', 'host', 'apiKey', 'publicPort', 'publicHost'] as const

export type ServeOptions = Pick<SettingOptions, (typeof serveNames)[number]>

export type PosthornOptions = SettingOptions &
  Readonly<{
    /** Handlers by type, as a handlers module exports them. */
    handlers?: HandlerTable
    /** Opens the server too; nothing listens without it. */
    serve?: ServeOptions
    /** The store has ended by a defect: nothing can be kept any more. By default it is logged. */
    onFatal?: (error: Error) => void
  }>

const ownOptions = ['handlers', 'serve', 'onFatal']
/**
 * A library is quiet in the log of its host. And it opens no private address by itself: the host may create endpoints
 * with the URLs of its own users.
 */
const fallbacks = { logLevel: 'warn', allowPrivate: 'none' }

/** Options win over the environment and the file; a problem is told by the name of the option. */
export function configOf(options: PosthornOptions): Config {
  const { handlers: _, serve = {}, onFatal: __, ...settings } = options
  const unknown = [
    ...unknownNames(Object.keys(options), [...publicNames, ...ownOptions], ''),
    ...unknownNames(Object.keys(serve), serveNames, 'serve.'),
  ]
  if (unknown.length > 0) throw invalid('The options of openPosthorn', unknown)
  const flags = Object.entries({ ...settings, ...serve }).map(([name, value]) => [name, textOf(value)])
  const flagName = (name: string) => (Object.hasOwn(serve, name) ? `serve.${name}` : name)
  return loadConfig({ flags: Object.fromEntries(flags), env: processEnvironment(), fallbacks, flagName })
}

function unknownNames(given: readonly string[], known: readonly string[], prefix: string): readonly FieldError[] {
  return given
    .filter((name) => !known.includes(name))
    .map((name) => ({ path: `${prefix}${name}`, message: `is not an option${didYouMean(name, known)}` }))
}

function textOf(value: unknown): string | undefined {
  if (value === undefined) return undefined
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  return Array.isArray(value) ? value.join(',') : String(value)
}
