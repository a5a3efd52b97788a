import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { PosthornError } from '../../core/errors.ts'
import {
  type Ends,
  type ImportSource,
  type PerKind,
  type Piece,
  type RecordKind,
  type Records,
  recordKinds,
} from '../import-records.ts'
import { createSecretBox, loadKey, type SecretBox } from '../secret-box.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { type Named, type Reading, readings } from './export-rows.ts'
import { openingFailure, storageFailure } from './failures.ts'
import { inspectFile, realFile } from './open-file.ts'
import { becomeOwner, type Owner, refuseWhileOpen } from './owner.ts'
import type { Cell } from './rows.ts'

const rowsMax = 1_000
/** One row may be larger. */
const bytesMax = 4 * 1024 * 1024

/** How the tables are called. */
const tables: PerKind<string> = {
  endpoints: 'endpoints',
  registry: 'registry',
  replays: 'replays',
  events: 'events',
  deliveries: 'deliveries',
  attempts: 'attempts',
  idempotencyKeys: 'idempotency_keys',
  origins: 'origins',
  deadLetterHours: 'dead_letter_hours',
}

/**
 * Opens a file to be read through, as its one owner: no server may change it meanwhile. `given` null: the key beside the
 * file, or `otherKey` where there is none.
 */
export function openExport(path: string, given: Uint8Array | null, otherKey: Uint8Array | null): ImportSource {
  const file = realFile(path)
  const key = given ?? (existsSync(`${file}.key`) ? null : otherKey)
  if (!existsSync(file)) {
    throw new PosthornError('store_missing', `${file} does not exist; name the database file.`)
  }
  try {
    refuseOutdated(file)
    if (!existsSync(`${file}-owner`)) refuseWhileOpen(file)
    const owner = becomeOwner(file, 'Stop that server first, and do not start it on this file again.')
    try {
      return readThrough(file, key, owner)
    } catch (error) {
      owner.release()
      throw error
    }
  } catch (error) {
    throw openingFailure(error, file)
  }
}

function refuseOutdated(file: string): void {
  const { from, to, applied } = inspectFile(file)
  if (from === 0) throw new PosthornError('store_missing', `${file} is empty; name a database file.`)
  if (applied.length === 0) return
  const message = `${file} has version ${from}, and this Posthorn has ${to}; run posthorn migrate --database sqlite:${file} first.`
  throw new PosthornError('invalid', message)
}

function readThrough(file: string, key: Uint8Array | null, owner: Owner): ImportSource {
  const db = openReadOnly(file)
  try {
    db.exec('BEGIN')
    const box = openBox(db, file, key)
    return new FileExport(db, { file, box, owner })
  } catch (error) {
    db.close()
    throw error
  }
}

function openReadOnly(file: string): DatabaseSync {
  try {
    return openAndLook(file, true)
  } catch (error) {
    // After a crash the log needs one who can write before it can be read.
    if (storageFailure(error)?.code !== 'store_read_only') throw error
    return openAndLook(file, false)
  }
}

function openAndLook(file: string, readOnly: boolean): DatabaseSync {
  const db = new DatabaseSync(file, { readOnly, timeout: busyTimeoutDefaultMs })
  try {
    db.prepare('SELECT count(*) FROM settings').get()
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

function openBox(db: DatabaseSync, file: string, key: Uint8Array | null): SecretBox {
  const sealed = keyCheckOf(db)
  try {
    const box = createSecretBox(key ?? loadKey(`${file}.key`))
    if (sealed !== undefined) box.open(sealed, 'key_check')
    return box
  } catch (cause) {
    if (storageFailure(cause)?.code !== 'store_wrong_key') throw cause
    const advice = 'name its key file by --from-key, or set POSTHORN_IMPORT_KEY'
    throw new PosthornError('store_wrong_key', `No key that fits was found for ${file}: ${advice}.`, { cause })
  }
}

function keyCheckOf(db: DatabaseSync): Uint8Array | undefined {
  return db.prepare(`SELECT value FROM settings WHERE name = 'key_check'`).get()?.value as Uint8Array | undefined
}

class FileExport implements ImportSource {
  readonly name: string
  readonly id: string
  readonly state: string
  readonly counts: PerKind<number>
  readonly ends: Ends
  readonly #db: DatabaseSync
  readonly #owner: Owner
  readonly #named: Named
  readonly #statements = new Map<RecordKind, StatementSync>()

  constructor(db: DatabaseSync, { file, box, owner }: { file: string; box: SecretBox; owner: Owner }) {
    this.#db = db
    this.#owner = owner
    this.name = file
    this.#named = namesIn(db, box)
    this.counts = countsOf(db)
    this.ends = endsOf(db)
    this.id = createHash('sha256')
      .update(keyCheckOf(db) ?? '')
      .digest('hex')
    this.state = stateOf(db, this.counts, this.ends)
  }

  read<K extends RecordKind>(kind: K, after: string | null): Piece<K> {
    this.#owner.keep()
    const reading: Reading<Records[K]> = readings[kind]
    const start: readonly Cell[] = after === null ? reading.start : JSON.parse(after)
    const records: Records[K][] = []
    let bytes = 0
    for (const row of this.#statement(kind).iterate(...start) as Iterable<unknown>) {
      const cells = row as readonly Cell[]
      records.push(reading.toRecord(cells, this.#named))
      bytes += bytesIn(cells)
      if (bytes < bytesMax && records.length < rowsMax) continue
      return { records, next: JSON.stringify(cells.slice(0, start.length)) }
    }
    return { records, next: null }
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close()
    this.#owner.release()
  }

  #statement(kind: RecordKind): StatementSync {
    const known = this.#statements.get(kind)
    if (known !== undefined) return known
    const statement = this.#db.prepare(readings[kind].sql)
    statement.setReturnArrays(true)
    this.#statements.set(kind, statement)
    return statement
  }
}

function namesIn(db: DatabaseSync, box: SecretBox): Named {
  const ids = new Map(
    db
      .prepare('SELECT no, id FROM endpoints')
      .all()
      .map(({ no, id }) => [no as number, id as string]),
  )
  const arrived = db.prepare('SELECT received_at FROM events WHERE no = ?')
  return {
    box,
    endpointId: (no) => ids.get(no) ?? refuseNumber(no),
    receivedAt: (eventNo) => (arrived.get(eventNo)?.received_at ?? 0) as number,
  }
}

function refuseNumber(no: number): never {
  throw new PosthornError('store_corrupt', `The database is damaged: no endpoint has the number ${no}.`)
}

function bytesIn(row: readonly Cell[]): number {
  let bytes = 0
  for (const cell of row) bytes += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8
  return bytes
}

function countsOf(db: DatabaseSync): PerKind<number> {
  const count = (kind: RecordKind) => db.prepare(`SELECT count(*) AS count FROM ${tables[kind]}`).get()?.count
  return Object.fromEntries(recordKinds.map((kind) => [kind, count(kind)])) as PerKind<number>
}

function endsOf(db: DatabaseSync): Ends {
  const last = db.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?')
  return {
    registryVersion: db.prepare('SELECT version FROM registry_version').get()?.version as number,
    endpointNo: (last.get('endpoints')?.seq ?? 0) as number,
    replayNo: (last.get('replays')?.seq ?? 0) as number,
  }
}

/** Every change of a delivery raises its version; the registry has one for all of it; endpoints and replays are few. */
function stateOf(db: DatabaseSync, counts: PerKind<number>, ends: Ends): string {
  const state = createHash('sha256').update(JSON.stringify([counts, ends]))
  for (const sql of [
    'SELECT sum(version), max(no) FROM deliveries',
    'SELECT max(no) FROM events',
    'SELECT * FROM endpoints ORDER BY no',
    'SELECT * FROM replays ORDER BY no',
  ]) {
    for (const row of db.prepare(sql).iterate()) state.update(JSON.stringify(row))
  }
  return state.digest('hex')
}
