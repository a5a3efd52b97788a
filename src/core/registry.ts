import type { ApiKey } from './api-key.ts'
import type { Endpoint } from './endpoint.ts'
import type { Relay } from './relay.ts'
import type { Source } from './source.ts'

/** What people set up: few, changed seldom, and in the memory of every process. */
export type RegistryItems = Readonly<{
  endpoint: Endpoint
  source: Source
  relay: Relay
  key: ApiKey
  setting: Setting
}>
export type RegistryKind = keyof RegistryItems

/** A setting that holds for all processes. */
export type Setting = Readonly<{ id: string; paused: boolean }>

/** The setting that pauses all delivery. */
export const allDelivery = 'all-delivery'

/** No two entries of a kind have the same name within the same scope. */
export type UniqueName = Readonly<{ scope: string; name: string }>

/** What people call a thing of this kind, inside a sentence. */
const kindWords: Readonly<Record<RegistryKind, string>> = {
  endpoint: 'endpoint',
  source: 'source',
  relay: 'relay',
  key: 'API key',
  setting: 'setting',
}

/** Why a put is refused whose version is not the entry's any more. */
export function changedMeanwhile(kind: RegistryKind, id: string): string {
  return `The ${kindWords[kind]} ${id} was changed by somebody else; read it again.`
}

/** Why a put is refused whose name another entry of its kind has. */
export function nameTaken(kind: RegistryKind, name: string): string {
  return `Another ${kindWords[kind]} is named ${name}; choose another name.`
}

type NameRules = { readonly [K in RegistryKind]: (item: RegistryItems[K]) => UniqueName | null }

const nameRules: NameRules = {
  /** Processes that start together must find one endpoint for a handler, not make one each. */
  endpoint: (endpoint) => (endpoint.kind === 'handler' ? { scope: endpoint.tenant, name: endpoint.handler } : null),
  /** It is part of an address that has no tenant. */
  source: ({ name }) => ({ scope: '', name }),
  relay: ({ tenant, name }) => ({ scope: tenant, name }),
  key: () => null,
  setting: () => null,
}

/** The name that no other entry of this kind may have; null: it has none. */
export function uniqueName<K extends RegistryKind>(kind: K, item: RegistryItems[K]): UniqueName | null {
  return nameRules[kind](item)
}

/** What is encrypted at rest. Headers of endpoints too: many receivers authenticate by one. */
const secretFields: Readonly<Record<RegistryKind, readonly string[]>> = {
  endpoint: ['secrets', 'headers'],
  source: ['secrets'],
  relay: [],
  key: [],
  setting: [],
}

export type SplitItem = Readonly<{
  settings: Readonly<Record<string, unknown>>
  /** null: this kind has no secrets. */
  secrets: Readonly<Record<string, unknown>> | null
}>

/** An item in two parts: what may be read in the database, and what may not. */
export function splitSecrets<K extends RegistryKind>(kind: K, item: RegistryItems[K]): SplitItem {
  const fields = secretFields[kind]
  const isSecret = ([name]: readonly [string, unknown]) => fields.includes(name)
  const cells = Object.entries(item)
  const settings = Object.fromEntries(cells.filter((cell) => !isSecret(cell)))
  return { settings, secrets: fields.length === 0 ? null : Object.fromEntries(cells.filter(isSecret)) }
}
