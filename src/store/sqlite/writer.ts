import { statSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { createSecretBox, loadKey, loadOrCreateKey, type SecretBox } from '../secret-box.ts'
import { Append } from './append.ts'
import { ClaimWork } from './claim.ts'
import { Commit } from './commit.ts'
import { EndpointTable } from './endpoints.ts'
import { openingFailure, storageFailure, toMessage } from './failures.ts'
import type { BatchAnswer, BatchMessage, BatchResult, Call } from './messages.ts'
import { type OpenFile, openFile } from './open-file.ts'

/** The thread that writes: one batch in, one transaction, one answer out. */
export type WriterData = Readonly<{ file: string; key: Uint8Array | null; busyTimeoutMs: number }>

/** When the log has outgrown what the reader's checkpoints keep up with, the writer makes one itself. */
const walBytesMax = 64 * 1024 * 1024
const batchesPerWalCheck = 64

const { file, key, busyTimeoutMs } = workerData as WriterData
const port = parentPort
if (port === null) throw new Error('writer.ts runs as a worker thread')

class Writer {
  readonly #file: OpenFile
  readonly #db: DatabaseSync
  readonly #endpoints: EndpointTable
  readonly #append: Append
  readonly #claims: ClaimWork
  readonly #commit: Commit
  readonly #changes: StatementSync
  #batches = 0

  constructor(opened: OpenFile) {
    this.#file = opened
    this.#db = opened.db
    this.#changes = this.#db.prepare('SELECT total_changes() AS count')
    this.#endpoints = new EndpointTable(this.#db, openBox(this.#db))
    this.#append = new Append(this.#db, this.#endpoints)
    this.#claims = new ClaimWork(this.#db, this.#endpoints)
    this.#commit = new Commit(this.#db, this.#endpoints, this.#claims)
    this.#claims.voidLeases()
  }

  lastNumber(): number {
    const row = this.#db
      .prepare(
        'SELECT max(coalesce((SELECT max(no) FROM events), 0), coalesce((SELECT max(no) FROM deliveries), 0)) AS last',
      )
      .get()
    return Number(row?.last ?? 0)
  }

  runBatch({ calls, bodies }: BatchMessage): BatchResult {
    const before = this.#changeCount()
    try {
      const answers = this.#inTransaction(() => calls.map((call) => ({ value: this.#run(call, bodies) })))
      return { answers, wrote: this.#changeCount() > before }
    } catch (error) {
      if (calls.some(changesCatalogue)) this.#endpoints.reload()
      const failure = { failure: toMessage(error) }
      if (calls.length === 1 || storageFailure(error) !== null) {
        return { answers: calls.map(() => failure), wrote: false }
      }
      // One call's defect must not cost the others of its batch: each gets a transaction of its own.
      const alone = calls.map((call) => this.runBatch({ calls: [call], bodies }))
      return { answers: alone.flatMap((result) => result.answers), wrote: alone.some((result) => result.wrote) }
    }
  }

  keepLogShort(): void {
    this.#batches += 1
    if (this.#batches % batchesPerWalCheck !== 0) return
    try {
      const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
      if (size > walBytesMax) this.#db.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full or failing disk shows in the next write; until then the log holds all that was kept.
    }
  }

  close(): void {
    this.#file.close()
  }

  #changeCount(): number {
    return this.#changes.get()?.count as number
  }

  #inTransaction<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      this.#db.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  #run(call: Call, bodies: ArrayBuffer): unknown {
    switch (call.name) {
      case 'append':
        return this.#append.run(call.request, bodies)
      case 'commit':
        return this.#commit.run(call.request)
      case 'claim':
        return this.#claims.run(call.request)
      case 'renew':
        return this.#claims.renew(call.request)
      case 'backlog':
        return this.#claims.backlog(call.request)
      case 'pullBack':
        return this.#claims.pullBack(call.request.endpointId, call.request.latestDueAt)
      case 'putEndpoint':
        return this.#endpoints.put(call.request)
      case 'removeEndpoint':
        return this.#endpoints.remove(call.request)
      case 'listEndpoints':
        return this.#endpoints.list()
      case 'endPending':
        return this.#commit.endPending(call.request)
      case 'putConditions':
        return this.#endpoints.putConditions(call.request)
      case 'listConditions':
        return this.#endpoints.listConditions()
      case 'pruneKeys':
        return pruneKeys(this.#db, call.request)
      case 'probe':
        return probe(this.#db)
    }
  }
}

function pruneKeys(db: DatabaseSync, { now, limit }: { now: number; limit: number }): number {
  const prune = db.prepare(`
    DELETE FROM idempotency_keys WHERE (scope, key) IN (
      SELECT scope, key FROM idempotency_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`)
  return Number(prune.run(now, limit).changes)
}

/** A real write, to see whether writes are possible again. */
function probe(db: DatabaseSync): void {
  db.prepare(`INSERT OR REPLACE INTO settings (name, value) VALUES ('probe', randomblob(2000))`).run()
}

function changesCatalogue({ name }: Call): boolean {
  return name === 'putEndpoint' || name === 'removeEndpoint'
}

/** The first key that opened this database is the only one that fits it; a lost one is not replaced. */
function openBox(db: DatabaseSync): SecretBox {
  const row = db.prepare(`SELECT value FROM settings WHERE name = 'key_check'`).get()
  const keyFile = `${file}.key`
  if (row !== undefined) {
    const box = createSecretBox(key ?? loadKey(keyFile))
    box.open(row.value as Uint8Array, 'key_check')
    return box
  }
  const box = createSecretBox(key ?? loadOrCreateKey(keyFile))
  db.prepare(`INSERT INTO settings (name, value) VALUES ('key_check', ?)`).run(box.seal('posthorn', 'key_check'))
  return box
}

function openThisFile(): Writer {
  const opened = openFile(file, busyTimeoutMs)
  try {
    return new Writer(opened)
  } catch (error) {
    opened.close()
    throw error
  }
}

function answer(message: BatchAnswer): void {
  port?.postMessage(message)
}

try {
  const writer = openThisFile()
  port.on('message', (message: BatchMessage | 'close') => {
    if (message === 'close') {
      writer.close()
      port.close()
      return
    }
    answer({ kind: 'done', ...writer.runBatch(message) })
    writer.keepLogShort()
  })
  answer({ kind: 'ready', lastNumber: writer.lastNumber() })
} catch (error) {
  answer({ kind: 'failed_to_open', failure: toMessage(openingFailure(error, file)) })
  port.close()
}
