import type { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { openReader } from './connection.ts'
import { type FailureMessage, toMessage } from './failures.ts'
import { LongReader, type LongReads } from './long-reads.ts'
import { Reader, type Reads } from './reads.ts'

/** A thread that reads. One of them also moves the log into the database file while the writer goes on. */
export type ReaderData = Readonly<{ file: string; movesLog: boolean }>

type AnyReads = Reads & LongReads
export type ReadMessage = Readonly<{ id: number; name: string; request: unknown }>
export type ReadAnswer = Readonly<{ id: number; value: unknown }> | Readonly<{ id: number; failure: FailureMessage }>

/** Little and often: the writer's syncs wait at the disk behind those of a checkpoint. */
const checkpointEveryMs = 100
/** 2 MiB in pages of 4 KiB. */
const checkpointPagesMin = 512

const { file, movesLog } = workerData as ReaderData
const port = parentPort
if (port === null) throw new Error('reader.ts runs as a worker thread')

const db = openReader(file)
const reads = serve(new Reader(db), new LongReader(db, file))
if (movesLog) moveLog(openReader(file))

port.on('message', (message: ReadMessage) => port.postMessage(answer(message)))

/** Moves what is in the log into the database file, again and again. */
function moveLog(mover: DatabaseSync): void {
  // Counts and moves nothing. A SQLite before 3.51 moves all there is instead, which is only more often than needed.
  const look = mover.prepare('PRAGMA wal_checkpoint(NOOP)')
  setInterval(() => {
    try {
      const pages = look.get() as Readonly<{ log: number; checkpointed: number }> | undefined
      if (pages === undefined || pages.log - pages.checkpointed < checkpointPagesMin) return
      mover.exec('PRAGMA wal_checkpoint(PASSIVE)')
    } catch {
      // A full or failing disk is the writer's to report; the log stays where it is until the next time.
    }
  }, checkpointEveryMs)
}

function serve(
  reader: Reader,
  long: LongReader,
): { [N in keyof AnyReads]: (request: AnyReads[N]['request']) => unknown } {
  return {
    getEvent: (id) => reader.getEvent(id),
    listEvents: (query) => reader.listEvents(query),
    getDelivery: (id) => reader.getDelivery(id),
    findIds: (query) => reader.findIds(query),
    listAttempts: (deliveryId) => reader.listAttempts(deliveryId),
    listDeliveries: (query) => reader.listDeliveries(query),
    getReplay: (id) => reader.getReplay(id),
    listReplays: (query) => reader.listReplays(query),
    deadLettersSince: (at) => reader.deadLettersSince(at),
    ahead: (request) => reader.ahead(request),
    countDeliveries: (request) => long.countDeliveries(request),
    groupDeadLetters: (request) => long.groupDeadLetters(request),
    findWaiting: (request) => long.findWaiting(request),
    findDead: (request) => long.findDead(request),
    measureReplay: (request) => long.measureReplay(request),
    stats: () => long.stats(),
    headlessLanes: () => long.headlessLanes(),
    sizes: () => long.sizes(),
  }
}

function answer({ id, name, request }: ReadMessage): ReadAnswer {
  try {
    const read = reads[name as keyof AnyReads] as (request: unknown) => unknown
    return { id, value: read(request) }
  } catch (error) {
    return { id, failure: toMessage(error) }
  }
}
