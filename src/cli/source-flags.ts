import type { Command } from 'commander'
import { byteSize, durationText, json, words } from './arguments.ts'

/** What can be chosen about a source, by the names of the API. */
export type SourceFlags = Readonly<{
  provider?: string
  type?: string
  key?: string
  description?: string
  tolerance?: string
  bodyBytesMax?: number
  contentTypes?: readonly string[]
  url?: string
  hmac?: unknown
  tenant?: string
}>

const bodyBytesMax = 64 * 1024 * 1024
/** Said instead of a value, to be rid of it. Not null: commander would make a text of it. */
const off = 'off'

export function withSourceFlags(command: Command): Command {
  return command
    .option('--type <template>', "the type of its events, such as 'github.{x-github-event}.{$.action?}'")
    .option('--key <template|off>', "their ordering key, such as '{$.repository.full_name}'")
    .option('--description <text>', 'a note for people')
    .option('--tolerance <duration>', 'how far a signed timestamp may be from now', durationText)
    .option('--body-bytes-max <size>', 'the largest body, such as 5MiB', byteSize(1, bodyBytesMax))
    .option('--content-types <types|off>', 'which ones are taken: application/json,… (default any)', words)
    .option('--url <url|off>', 'the address that the provider signs (twilio, square)')
    .option('--hmac <json>', 'the scheme of the provider hmac, such as {"header":"x-signature"}', json)
}

/** The request that the flags stand for; what was not said is left to the server. */
export function sourceBody(flags: SourceFlags): Record<string, unknown> {
  const { provider, type, key, description, tolerance, contentTypes, url, hmac, tenant } = flags
  const types = contentTypes?.length === 1 && contentTypes[0] === off ? null : contentTypes
  const optional = { key: key === off ? null : key, url: url === off ? null : url, contentTypes: types }
  const fields = { provider, type, description, tolerance, bodyBytesMax: flags.bodyBytesMax, hmac, tenant, ...optional }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
