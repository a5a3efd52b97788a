import { DatabaseSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { PosthornError } from '../../core/errors.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { type FailureMessage, openingFailure, storageFailure, toMessage } from './failures.ts'
import { migrate } from './migrations.ts'

/** The thread that makes a backup: copies in one read transaction, then reads the copy through. */
export type CopyData = Readonly<{ source: string; part: string }>
export type CopyAnswer = Readonly<{ events: number; deliveries: number }> | Readonly<{ failure: FailureMessage }>

const { source, part } = workerData as CopyData

function copy(): CopyAnswer {
  try {
    copyFrom({ readOnly: true })
  } catch (error) {
    // Without its owner the log may need one who can write before it can be read.
    if (storageFailure(error)?.code !== 'store_read_only') throw error
    copyFrom({ readOnly: false })
  }
  return verify()
}

function copyFrom({ readOnly }: { readOnly: boolean }): void {
  const db = new DatabaseSync(source, { readOnly, timeout: busyTimeoutDefaultMs })
  try {
    migrate(db, source, { dryRun: true })
    // What it sees is what was committed when it began; the owner goes on writing meanwhile.
    db.prepare('VACUUM INTO ?').run(part)
  } catch (error) {
    throw openingFailure(error, source)
  } finally {
    db.close()
  }
}

function verify(): CopyAnswer {
  const db = new DatabaseSync(part, { readOnly: true })
  try {
    const found = db.prepare('PRAGMA integrity_check').get()?.integrity_check
    if (found !== 'ok') throw new PosthornError('store_corrupt', `The copy is damaged (${found}); check the disk.`)
    migrate(db, part, { dryRun: true })
    const count = (table: string) => db.prepare(`SELECT count(*) AS count FROM ${table}`).get()?.count as number
    return { events: count('events'), deliveries: count('deliveries') }
  } finally {
    db.close()
  }
}

function answer(): CopyAnswer {
  try {
    return copy()
  } catch (error) {
    return { failure: toMessage(error) }
  }
}

parentPort?.postMessage(answer())
