import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import { type RegistryItems, type RegistryKind, splitSecrets, uniqueName } from '../../core/registry.ts'
import type { RegistryEntry } from '../registry-store.ts'
import type { SecretBox } from '../secret-box.ts'
import type { EndpointTable } from './endpoints.ts'

const words: Readonly<Record<RegistryKind, string>> = {
  endpoint: 'endpoint',
  source: 'source',
  relay: 'relay',
  key: 'API key',
}

/** What people set up; runs inside the batch's transaction. */
export class RegistryTable {
  readonly #box: SecretBox
  readonly #endpoints: EndpointTable
  readonly #list: StatementSync
  readonly #versionOf: StatementSync
  readonly #nameTaken: StatementSync
  readonly #put: StatementSync
  readonly #remove: StatementSync
  readonly #raise: StatementSync
  readonly #version: StatementSync

  constructor(db: DatabaseSync, box: SecretBox, endpoints: EndpointTable) {
    this.#box = box
    this.#endpoints = endpoints
    // Ids sort by age.
    this.#list = db.prepare('SELECT id, version, settings, secrets FROM registry WHERE kind = ? ORDER BY id')
    this.#versionOf = db.prepare('SELECT version FROM registry WHERE kind = ? AND id = ?')
    this.#nameTaken = db.prepare('SELECT 1 FROM registry WHERE kind = ? AND scope = ? AND name = ? AND id <> ?')
    this.#put = db.prepare(`
      INSERT OR REPLACE INTO registry (kind, id, version, scope, name, settings, secrets) VALUES (?, ?, ?, ?, ?, ?, ?)`)
    this.#remove = db.prepare('DELETE FROM registry WHERE kind = ? AND id = ?')
    this.#raise = db.prepare('UPDATE registry_version SET version = version + 1')
    this.#version = db.prepare('SELECT version FROM registry_version')
  }

  list<K extends RegistryKind>(kind: K): RegistryEntry<K>[] {
    return this.#list.all(kind).map((row) => {
      const settings = JSON.parse(row.settings as string)
      const version = row.version as number
      if (row.secrets === null) return { item: settings, version }
      const secrets = JSON.parse(this.#box.open(row.secrets as Uint8Array, row.id as string))
      // Secrets of a source were once kept without their field's name.
      return { item: Array.isArray(secrets) ? { ...settings, secrets } : { ...settings, ...secrets }, version }
    })
  }

  put<K extends RegistryKind>(kind: K, item: RegistryItems[K], expectedVersion: number): number {
    const { id } = item
    const version = (this.#versionOf.get(kind, id)?.version ?? 0) as number
    if (version !== expectedVersion) {
      throw new PosthornError('conflict', `The ${words[kind]} ${id} was changed by somebody else; read it again.`)
    }
    const unique = uniqueName(kind, item)
    if (unique !== null && this.#nameTaken.get(kind, unique.scope, unique.name, id) !== undefined) {
      throw new PosthornError('conflict', `Another ${words[kind]} is named ${unique.name}; choose another name.`)
    }
    if (kind === 'endpoint') this.#endpoints.put(item as RegistryItems['endpoint'])
    const { settings, secrets } = splitSecrets(kind, item)
    const sealed = secrets === null ? null : this.#box.seal(JSON.stringify(secrets), id)
    const name = [unique?.scope ?? null, unique?.name ?? null]
    this.#put.run(kind, id, version + 1, ...name, JSON.stringify(settings), sealed)
    this.#raise.run()
    return version + 1
  }

  remove(kind: RegistryKind, id: string): void {
    const { changes } = this.#remove.run(kind, id)
    if (Number(changes) === 0) return
    if (kind === 'endpoint') this.#endpoints.remove(id)
    this.#raise.run()
  }

  version(): number {
    return this.#version.get()?.version as number
  }
}
