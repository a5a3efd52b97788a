import type { RegistryItems, RegistryKind } from '../core/registry.ts'

/** The part of the store port for what people set up: endpoints, sources, relays, API keys and settings. */
export interface RegistryStore {
  /** All entries of a kind, oldest first. */
  listEntries<K extends RegistryKind>(kind: K): Promise<readonly RegistryEntry<K>[]>

  /**
   * Creates an entry (`expectedVersion` 0) or replaces the one with this id and version; answers the new version. Rejects
   * with `conflict` when the entry has another version, or was removed: read again, then decide again. A name that
   * another entry has (core/registry) is a `conflict` too. Secrets are encrypted at rest.
   */
  putEntry<K extends RegistryKind>(kind: K, item: RegistryItems[K], expectedVersion: number): Promise<number>

  /**
   * Removes an entry, whatever its version; one that is not there is no error. Its name is free again. The deliveries of
   * an endpoint stay until `endPending` has ended them, and its id can never be used again.
   */
  removeEntry(kind: RegistryKind, id: string): Promise<void>
}

/** `version` counts the puts of this entry, from 1. */
export type RegistryEntry<K extends RegistryKind> = Readonly<{ item: RegistryItems[K]; version: number }>
