import type { SigningSecret } from './endpoint.ts'

/** Who sends webhooks to a source, and so how they are signed. */
export const providers = [
  'github',
  'stripe',
  'slack',
  'shopify',
  'twilio',
  'square',
  'standard',
  'hmac',
  'none',
] as const
export type Provider = (typeof providers)[number]

/** Where events come in from outside: `POST /in/:name`. */
export type Source = Readonly<{
  id: string
  /** The last part of its address; unique over all tenants. */
  name: string
  tenant: string
  provider: Provider
  description: string
  /** The type of its events: text in which `{x-github-event}` is a header and `{$.type}` a place in the JSON body. */
  type: string
  /** The ordering key of its events, made in the same way; null: none. */
  key: string | null
  /** Newest first; all of them are accepted until they expire. Empty for `none`. */
  secrets: readonly SigningSecret[]
  /** A signed timestamp further from now than this is refused. */
  toleranceMs: number
  bodyBytesMax: number
  /** Media types that are taken; null: any. */
  contentTypes: readonly string[] | null
  /** The address that the provider signs, where it signs one (Twilio, Square); null: as the request names it. */
  url: string | null
  /** For the provider `hmac`; null for all others. */
  hmac: HmacScheme | null
  createdAt: number
  updatedAt: number
}>

/** A signature of somebody's own making: which header it is in, and what is signed. */
export type HmacScheme = Readonly<{
  header: string
  algorithm: 'sha1' | 'sha256' | 'sha512'
  encoding: 'hex' | 'base64'
  /** What stands before the signature, e.g. `sha256=`. */
  prefix: string
  /** A header with the time in seconds; what is signed is then `<timestamp>.<body>`. null: the body alone. */
  timestampHeader: string | null
  /** A header with the id of the event, by which repeats are known; null: none. */
  idHeader: string | null
}>
