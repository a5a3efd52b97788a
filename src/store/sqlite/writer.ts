import { statSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { createSecretBox, loadKey, loadOrCreateKey, type SecretBox } from '../secret-box.ts'
import { Append } from './append.ts'
import { ClaimWork } from './claim.ts'
import { Commit } from './commit.ts'
import { DeadLetterHours } from './dead-letter-hours.ts'
import { EndpointTable } from './endpoints.ts'
import { isStorageCode, openingFailure, toMessage } from './failures.ts'
import { FileWatch } from './file-watch.ts'
import type { BatchAnswer, BatchMessage, BatchResult, Call, CallName, Calls } from './messages.ts'
import { type OpenFile, openFile } from './open-file.ts'
import { Registry } from './registry.ts'
import { Replays } from './replays.ts'
import { Revival } from './revival.ts'
import { Upkeep } from './upkeep.ts'

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
  readonly #served: Served
  readonly #changes: StatementSync
  #batches = 0
  #commitMs = 0

  constructor(opened: OpenFile) {
    this.#file = opened
    this.#db = opened.db
    this.#changes = this.#db.prepare('SELECT total_changes() AS count')
    const box = openBox(this.#db)
    this.#endpoints = new EndpointTable(this.#db, box)
    const claims = new ClaimWork(this.#db, this.#endpoints)
    this.#served = serve(this.#db, this.#endpoints, claims, new Registry(this.#db, box))
    claims.voidLeases()
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
      return { answers, wrote: this.#changeCount() > before, commitMs: this.#commitMs }
    } catch (error) {
      if (calls.some(changesCatalogue)) this.#endpoints.reload()
      const failure = { failure: toMessage(error) }
      if (calls.length === 1 || isStorageCode(failure.failure.code)) {
        return { answers: calls.map(() => failure), wrote: false, commitMs: 0 }
      }
      // One call's defect must not cost the others of its batch: each gets a transaction of its own.
      const alone = calls.map((call) => this.runBatch({ calls: [call], bodies }))
      return {
        answers: alone.flatMap((result) => result.answers),
        wrote: alone.some((result) => result.wrote),
        commitMs: alone.reduce((sum, result) => sum + result.commitMs, 0),
      }
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

  #run({ name, request }: Call, bodies: ArrayBuffer): unknown {
    const served = this.#served[name] as (request: unknown, bodies: ArrayBuffer) => unknown
    return served(request, bodies)
  }

  #changeCount(): number {
    return this.#changes.get()?.count as number
  }

  #inTransaction<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      const startedAt = performance.now()
      this.#db.exec('COMMIT')
      this.#commitMs = performance.now() - startedAt
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }
}

type Served = { [Name in CallName]: (request: Calls[Name]['request'], bodies: ArrayBuffer) => unknown }

/** Who serves which call; every one of them runs inside the batch's transaction. */
function serve(db: DatabaseSync, endpoints: EndpointTable, claims: ClaimWork, registry: Registry): Served {
  const hours = new DeadLetterHours(db)
  const append = new Append(db, endpoints, hours)
  const commit = new Commit(db, endpoints, claims, hours)
  const revival = new Revival(db, endpoints, commit)
  const replays = new Replays(db, endpoints, revival)
  const upkeep = new Upkeep(db, endpoints, revival)
  return {
    append: (arrivals, bodies) => append.run(arrivals, bodies),
    commit: (changes) => commit.run(changes),
    claim: (request) => claims.run(request),
    renew: (leases) => claims.renew(leases),
    backlog: (now) => claims.backlog(now),
    pullBack: (request) => claims.pullBack(request),
    putEndpoint: (endpoint) => endpoints.put(endpoint),
    removeEndpoint: (id) => endpoints.remove(id),
    listEndpoints: () => endpoints.list(),
    endPending: (request) => commit.endPending(request),
    putConditions: (conditions) => endpoints.putConditions(conditions),
    listConditions: () => endpoints.listConditions(),
    putSource: (source) => registry.putSource(source),
    removeSource: (id) => registry.removeSource(id),
    listSources: () => registry.listSources(),
    putRelay: (relay) => registry.putRelay(relay),
    removeRelay: (id) => registry.removeRelay(id),
    listRelays: () => registry.listRelays(),
    putApiKey: (key) => registry.putApiKey(key),
    removeApiKey: (id) => registry.removeApiKey(id),
    listApiKeys: () => registry.listApiKeys(),
    createReplay: (request) => replays.create(request),
    changeReplay: (request) => replays.change(request),
    stepReplay: (step) => replays.step(step),
    pruneReplays: (request) => replays.prune(request),
    discard: (request) => replays.discard(request),
    expire: (request) => upkeep.expire(request),
    prune: (request) => upkeep.prune(request),
    shrink: (pagesMax) => upkeep.shrink(pagesMax),
    pruneDeadLetterCounts: (request) => hours.prune(request),
    pruneKeys: (request) => upkeep.pruneKeys(request),
    probe: () => probe(db),
  }
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
  const watch = new FileWatch(file)
  port.on('message', (message: BatchMessage | 'close') => {
    if (message === 'close') {
      writer.close()
      port.close()
      return
    }
    const result = writer.runBatch(message)
    // Ends the thread, and with it the store: nobody gets an answer for what went nowhere.
    watch.check()
    answer({ kind: 'done', ...result })
    writer.keepLogShort()
  })
  answer({ kind: 'ready', lastNumber: writer.lastNumber() })
} catch (error) {
  answer({ kind: 'failed_to_open', failure: toMessage(openingFailure(error, file)) })
  port.close()
}
