import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { openReader } from './connection.ts'
import { type FailureMessage, toMessage } from './failures.ts'
import { LongReader, type LongReads } from './long-reads.ts'
import { Reader, type Reads } from './reads.ts'

/** A thread that reads. One of them also moves the log into the database file while the writer goes on. */
export type ReaderData = Readonly<{ file: string; keepsLogShort: boolean }>

type AnyReads = Reads & LongReads
export type ReadMessage = Readonly<{ id: number; name: string; request: unknown }>
export type ReadAnswer = Readonly<{ id: number; value: unknown }> | Readonly<{ id: number; failure: FailureMessage }>

const checkpointEveryMs = 1_000
const checkpointBytesMin = 8 * 1024 * 1024

const { file, keepsLogShort } = workerData as ReaderData
const port = parentPort
if (port === null) throw new Error('reader.ts runs as a worker thread')

const db = openReader(file)
const checkpoints = keepsLogShort ? openReader(file) : null
const reads = serve(new Reader(db), new LongReader(db, file))
const timer = setInterval(() => {
  try {
    const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
    if (size < checkpointBytesMin) return
    checkpoints?.exec('PRAGMA wal_checkpoint(PASSIVE)')
  } catch {
    // A full or failing disk is the writer's to report; the log stays where it is until the next time.
  }
}, checkpointEveryMs)
if (checkpoints === null) clearInterval(timer)

port.on('message', (message: ReadMessage) => port.postMessage(answer(message)))

function serve(
  reader: Reader,
  long: LongReader,
): { [N in keyof AnyReads]: (request: AnyReads[N]['request']) => unknown } {
  return {
    getEvent: (id) => reader.getEvent(id),
    listEvents: (query) => reader.listEvents(query),
    getDelivery: (id) => reader.getDelivery(id),
    listAttempts: (deliveryId) => reader.listAttempts(deliveryId),
    listDeliveries: (query) => reader.listDeliveries(query),
    getReplay: (id) => reader.getReplay(id),
    listReplays: (query) => reader.listReplays(query),
    ahead: (request) => reader.ahead(request),
    countDeliveries: (request) => long.countDeliveries(request),
    groupDeadLetters: (request) => long.groupDeadLetters(request),
    findDead: (request) => long.findDead(request),
    measureReplay: (request) => long.measureReplay(request),
    stats: () => long.stats(),
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
