import type { ApiKey } from '../core/api-key.ts'
import type { Relay } from '../core/relay.ts'
import type { Source } from '../core/source.ts'

/** The part of the store port for what people set up beside endpoints: sources, relays and API keys. Few, read at the start. */
export interface RegistryStore {
  /** Creates or replaces. Secrets are encrypted at rest. A name that another source has is a `conflict`. */
  putSource(source: Source): Promise<void>
  removeSource(id: string): Promise<void>
  listSources(): Promise<readonly Source[]>

  /** A name that another relay of its tenant has is a `conflict`. */
  putRelay(relay: Relay): Promise<void>
  removeRelay(id: string): Promise<void>
  listRelays(): Promise<readonly Relay[]>

  putApiKey(key: ApiKey): Promise<void>
  removeApiKey(id: string): Promise<void>
  listApiKeys(): Promise<readonly ApiKey[]>
}
