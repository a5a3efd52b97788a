import { statSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { createSecretBox, loadKey, loadOrCreateKey, type SecretBox } from '../secret-box.ts'
import { Append } from './append.ts'
import { ClaimWork } from './claim.ts'
import { Commit } from './commit.ts'
import { DeadLetterHours } from './dead-letter-hours.ts'
import { EndpointTable } from './endpoints.ts'
import { isStorageCode, openingFailure, shortOfSpace, storageFailure, toMessage } from './failures.ts'
import { FileWatch } from './file-watch.ts'
import type { BatchAnswer, BatchMessage, BatchResult, Call, CallAnswer, CallName, Calls } from './messages.ts'
import { type OpenFile, openFile } from './open-file.ts'
import { PullBack } from './pull-back.ts'
import { RegistryTable } from './registry.ts'
import { ReplayOutcomes } from './replay-outcomes.ts'
import { Replays } from './replays.ts'
import { Reserve } from './reserve.ts'
import { Revival } from './revival.ts'
import { Upkeep } from './upkeep.ts'

/** The thread that writes: one batch in, one transaction, one answer out. */
export type WriterData = Readonly<{ file: string; key: Uint8Array | null; busyTimeoutMs: number }>

/** When the log has outgrown what the reader's checkpoints keep up with, the writer makes one itself. */
const walBytesMax = 64 * 1024 * 1024
const batchesPerLook = 64
const keepOwningEveryMs = 1_000

const { file, key, busyTimeoutMs } = workerData as WriterData
const port = parentPort
if (port === null) throw new Error('writer.ts runs as a worker thread')

class Writer {
  readonly #file: OpenFile
  readonly #reserve: Reserve
  readonly #db: DatabaseSync
  readonly #endpoints: EndpointTable
  readonly #served: Served
  readonly #changes: StatementSync
  #batches = 0
  #commitMs = 0

  constructor(opened: OpenFile, reserve: Reserve) {
    this.#file = opened
    this.#reserve = reserve
    this.#db = opened.db
    this.#changes = this.#db.prepare('SELECT total_changes() AS count')
    const box = openBox(this.#db)
    this.#endpoints = new EndpointTable(this.#db)
    const claims = new ClaimWork(this.#db, this.#endpoints)
    const registry = new RegistryTable(this.#db, box, this.#endpoints)
    this.#served = serve(this.#db, this.#endpoints, claims, registry, reserve)
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

  get isShort(): boolean {
    return this.#reserve.isSpent
  }

  runBatch(batch: BatchMessage): BatchResult {
    if (this.isShort) return this.#runWithoutEvents(batch)
    const result = this.#runTogether(batch)
    return result.answers.every(isFull) && this.#reserve.spend() ? this.#runWithoutEvents(batch) : result
  }

  /** What is left of the disk is for outcomes, and for what makes room. */
  #runWithoutEvents({ calls, bodies }: BatchMessage): BatchResult {
    const others = calls.filter(({ name }) => name !== 'append')
    const result = this.#runTogether({ calls: others, bodies })
    const answers = result.answers.values()
    const refused = { failure: shortOfSpace }
    return {
      ...result,
      answers: calls.map(({ name }) => (name === 'append' ? refused : (answers.next().value ?? refused))),
    }
  }

  #runTogether({ calls, bodies }: BatchMessage): BatchResult {
    const before = this.#changeCount()
    try {
      const answers = this.#inTransaction(() => calls.map((call) => ({ value: this.#run(call, bodies) })))
      return { answers, wrote: this.#changeCount() > before, commitMs: this.#commitMs, isShort: this.isShort }
    } catch (error) {
      if (calls.some(changesRegistry)) this.#endpoints.reload()
      const failure = { failure: toMessage(error) }
      if (calls.length === 1 || isStorageCode(failure.failure.code)) {
        return { answers: calls.map(() => failure), wrote: false, commitMs: 0, isShort: this.isShort }
      }
      // One call's defect must not cost the others of its batch: each gets a transaction of its own.
      const alone = calls.map((call) => this.#runTogether({ calls: [call], bodies }))
      return {
        answers: alone.flatMap((result) => result.answers),
        wrote: alone.some((result) => result.wrote),
        commitMs: alone.reduce((sum, result) => sum + result.commitMs, 0),
        isShort: this.isShort,
      }
    }
  }

  /** The lock file may have been deleted: whoever starts next must find it. */
  keepOwning(): void {
    this.#file.owner.keep()
  }

  keepLogShort(): void {
    this.#batches += 1
    // On a full disk the file becomes smaller, and the log is written anew from its beginning, by a checkpoint alone.
    if (this.isShort) this.#moveLog(0)
    if (this.#batches % batchesPerLook !== 0) return
    this.#moveLog(walBytesMax)
  }

  #moveLog(fromBytes: number): void {
    try {
      const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
      if (size > fromBytes) this.#db.exec('PRAGMA wal_checkpoint(PASSIVE)')
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
function serve(
  db: DatabaseSync,
  endpoints: EndpointTable,
  claims: ClaimWork,
  registry: RegistryTable,
  reserve: Reserve,
): Served {
  const pullBack = new PullBack(db, endpoints)
  const hours = new DeadLetterHours(db)
  const outcomes = new ReplayOutcomes(db)
  const append = new Append(db, endpoints, hours)
  const commit = new Commit(db, endpoints, claims, { hours, outcomes })
  const revival = new Revival(db, endpoints, commit, outcomes)
  const replays = new Replays(db, endpoints, revival)
  const upkeep = new Upkeep(db, endpoints, revival, { replays, hours })
  return {
    append: (arrivals, bodies) => append.run(arrivals, bodies),
    commit: (changes) => commit.run(changes),
    claim: (request) => claims.run(request),
    body: (eventId) => claims.body(eventId),
    renew: (leases) => claims.renew(leases),
    backlog: (now) => claims.backlog(now),
    pullBack: (request) => pullBack.run(request),
    endPending: (request) => commit.endPending(request),
    putConditions: (conditions) => endpoints.putConditions(conditions),
    listConditions: () => endpoints.listConditions(),
    listEntries: (kind) => registry.list(kind),
    putEntry: ({ kind, item, expectedVersion }) => registry.put(kind, item, expectedVersion),
    removeEntry: ({ kind, id }) => registry.remove(kind, id),
    registryVersion: () => registry.version(),
    createReplay: (request) => replays.create(request),
    changeReplay: (request) => replays.change(request),
    stepReplay: (step) => replays.step(step),
    discard: (request) => replays.discard(request),
    cancelWaiting: ({ deliveryIds, now }) => revival.cancel(deliveryIds, now),
    expire: (request) => upkeep.expire(request),
    prune: (request) => upkeep.prune(request),
    shrink: (pagesMax) => upkeep.shrink(pagesMax),
    probe: () => probe(db, reserve),
  }
}

/** A real write, to see whether writes are possible again. */
function probe(db: DatabaseSync, reserve: Reserve): void {
  if (reserve.isSpent) reserve.fill()
  db.prepare(`INSERT OR REPLACE INTO settings (name, value) VALUES ('probe', randomblob(2000))`).run()
}

function isFull(answer: CallAnswer): boolean {
  return 'failure' in answer && answer.failure.code === 'store_full'
}

function changesRegistry({ name }: Call): boolean {
  return name === 'putEntry' || name === 'removeEntry'
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

/** On a full disk there is something to deliver and to prune all the same: the reserve is for that. */
function openThisFile(reserve: Reserve): Writer {
  try {
    const writer = openOnce(reserve)
    reserve.fill()
    return writer
  } catch (error) {
    if (storageFailure(error)?.code !== 'store_full' || !reserve.spend()) throw error
    return openOnce(reserve)
  }
}

function openOnce(reserve: Reserve): Writer {
  const opened = openFile(file, busyTimeoutMs)
  try {
    return new Writer(opened, reserve)
  } catch (error) {
    opened.close()
    throw error
  }
}

function answer(message: BatchAnswer, given: ArrayBuffer[] = []): void {
  port?.postMessage(message, given)
}

/** Bodies that were read for the other side: they are handed over, not copied. */
function givenAway({ calls }: BatchMessage, { answers }: BatchResult): ArrayBuffer[] {
  const given: ArrayBuffer[] = []
  calls.forEach(({ name }, index) => {
    const answered = answers[index]
    if (name !== 'body' || answered === undefined || !('value' in answered)) return
    const { value } = answered as { value: Calls['body']['answer'] }
    if (value !== null) given.push(value.buffer as ArrayBuffer)
  })
  return given
}

try {
  const writer = openThisFile(new Reserve(file))
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
    answer({ kind: 'done', ...result }, givenAway(message, result))
    writer.keepLogShort()
  })
  setInterval(() => writer.keepOwning(), keepOwningEveryMs).unref()
  answer({ kind: 'ready', lastNumber: writer.lastNumber(), isShort: writer.isShort })
} catch (error) {
  answer({ kind: 'failed_to_open', failure: toMessage(openingFailure(error, file)) })
  port.close()
}
