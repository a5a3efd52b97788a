import { statSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { openReader } from './connection.ts'
import { type FailureMessage, toMessage } from './failures.ts'
import { type Read, Reader } from './reads.ts'

/** The thread that reads pages, and moves the log into the database file while the writer goes on. */
export type ReadMessage = Readonly<{ id: number; read: Read }>
export type ReadAnswer = Readonly<{ id: number; value: unknown }> | Readonly<{ id: number; failure: FailureMessage }>

const checkpointEveryMs = 1_000
const checkpointBytesMin = 8 * 1024 * 1024

const { file } = workerData as { file: string }
const port = parentPort
if (port === null) throw new Error('reader.ts runs as a worker thread')

const db = openReader(file)
const checkpoints = openReader(file)
const reader = new Reader(db)

const timer = setInterval(() => {
  try {
    const size = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
    if (size < checkpointBytesMin) return
    checkpoints.exec('PRAGMA wal_checkpoint(PASSIVE)')
  } catch {
    // A full or failing disk is the writer's to report; the log stays where it is until the next time.
  }
}, checkpointEveryMs)

port.on('message', (message: ReadMessage | 'close') => {
  if (message === 'close') {
    clearInterval(timer)
    db.close()
    checkpoints.close()
    port.close()
    return
  }
  port.postMessage(answer(message))
})

function answer({ id, read }: ReadMessage): ReadAnswer {
  try {
    return { id, value: reader.run(read) }
  } catch (error) {
    return { id, failure: toMessage(error) }
  }
}
