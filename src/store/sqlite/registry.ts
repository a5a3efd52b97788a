import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import {
  changedMeanwhile,
  nameTaken,
  type RegistryItems,
  type RegistryKind,
  splitSecrets,
  uniqueName,
} from '../../core/registry.ts'
import type { RegistryEntry } from '../registry-store.ts'
import type { SecretBox } from '../secret-box.ts'
import type { EndpointTable } from './endpoints.ts'

type EntryRow = Readonly<{ id: string; settings: string; secrets: Uint8Array | null }>

/** A row of the registry with its secrets. */
export function toItem({ id, settings, secrets }: EntryRow, box: SecretBox): RegistryItems[RegistryKind] {
  const item = JSON.parse(settings)
  if (secrets === null) return item
  const opened = JSON.parse(box.open(secrets, id))
  // Secrets of a source were once kept without their field's name.
  return Array.isArray(opened) ? { ...item, secrets: opened } : { ...item, ...opened }
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
    return this.#list.all(kind).map((row) => ({
      item: toItem(row as EntryRow, this.#box) as RegistryItems[K],
      version: row.version as number,
    }))
  }

  put<K extends RegistryKind>(kind: K, item: RegistryItems[K], expectedVersion: number): number {
    const { id } = item
    const version = (this.#versionOf.get(kind, id)?.version ?? 0) as number
    if (version !== expectedVersion) {
      throw new PosthornError('conflict', changedMeanwhile(kind, id))
    }
    const unique = uniqueName(kind, item)
    if (unique !== null && this.#nameTaken.get(kind, unique.scope, unique.name, id) !== undefined) {
      throw new PosthornError('conflict', nameTaken(kind, unique.name))
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
