import type { RegistryItems, RegistryKind } from '../../src/core/registry.ts'
import type { RegistryStore } from '../../src/store/registry-store.ts'

/** What is kept of a kind, without the versions. */
export async function itemsOf<K extends RegistryKind>(
  store: Pick<RegistryStore, 'listEntries'>,
  kind: K,
): Promise<RegistryItems[K][]> {
  return (await store.listEntries(kind)).map(({ item }) => item)
}
