import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { ApiKey } from '../../core/api-key.ts'
import { PosthornError } from '../../core/errors.ts'
import type { Relay } from '../../core/relay.ts'
import type { Source } from '../../core/source.ts'
import type { SecretBox } from '../secret-box.ts'

/** Sources, relays and API keys; runs inside the batch's transaction. */
export class Registry {
  readonly #box: SecretBox
  readonly #nameTaken: StatementSync
  readonly #putSource: StatementSync
  readonly #removeSource: StatementSync
  readonly #listSources: StatementSync
  readonly #relayNameTaken: StatementSync
  readonly #putRelay: StatementSync
  readonly #removeRelay: StatementSync
  readonly #listRelays: StatementSync
  readonly #putApiKey: StatementSync
  readonly #removeApiKey: StatementSync
  readonly #listApiKeys: StatementSync

  constructor(db: DatabaseSync, box: SecretBox) {
    this.#box = box
    this.#nameTaken = db.prepare('SELECT 1 FROM sources WHERE name = ? AND id <> ?')
    this.#putSource = db.prepare('INSERT OR REPLACE INTO sources (id, name, settings, secrets) VALUES (?, ?, ?, ?)')
    this.#removeSource = db.prepare('DELETE FROM sources WHERE id = ?')
    // Ids sort by age.
    this.#listSources = db.prepare('SELECT id, settings, secrets FROM sources ORDER BY id')
    this.#relayNameTaken = db.prepare('SELECT 1 FROM relays WHERE tenant = ? AND name = ? AND id <> ?')
    this.#putRelay = db.prepare('INSERT OR REPLACE INTO relays (id, tenant, name, settings) VALUES (?, ?, ?, ?)')
    this.#removeRelay = db.prepare('DELETE FROM relays WHERE id = ?')
    this.#listRelays = db.prepare('SELECT settings FROM relays ORDER BY id')
    this.#putApiKey = db.prepare('INSERT OR REPLACE INTO api_keys (id, settings) VALUES (?, ?)')
    this.#removeApiKey = db.prepare('DELETE FROM api_keys WHERE id = ?')
    this.#listApiKeys = db.prepare('SELECT settings FROM api_keys ORDER BY id')
  }

  putSource({ secrets, ...settings }: Source): void {
    const { id, name } = settings
    if (this.#nameTaken.get(name, id) !== undefined) {
      throw new PosthornError('conflict', `Another source is named ${name}; choose another name.`)
    }
    this.#putSource.run(id, name, JSON.stringify(settings), this.#box.seal(JSON.stringify(secrets), id))
  }

  removeSource(id: string): void {
    this.#removeSource.run(id)
  }

  listSources(): Source[] {
    return this.#listSources.all().map((row) => {
      const secrets = this.#box.open(row.secrets as Uint8Array, row.id as string)
      return { ...JSON.parse(row.settings as string), secrets: JSON.parse(secrets) }
    })
  }

  putRelay(relay: Relay): void {
    const { id, tenant, name } = relay
    if (this.#relayNameTaken.get(tenant, name, id) !== undefined) {
      throw new PosthornError('conflict', `Another relay is named ${name}; choose another name.`)
    }
    this.#putRelay.run(id, tenant, name, JSON.stringify(relay))
  }

  removeRelay(id: string): void {
    this.#removeRelay.run(id)
  }

  listRelays(): Relay[] {
    return this.#listRelays.all().map((row) => JSON.parse(row.settings as string))
  }

  putApiKey(key: ApiKey): void {
    this.#putApiKey.run(key.id, JSON.stringify(key))
  }

  removeApiKey(id: string): void {
    this.#removeApiKey.run(id)
  }

  listApiKeys(): ApiKey[] {
    return this.#listApiKeys.all().map((row) => JSON.parse(row.settings as string))
  }
}
