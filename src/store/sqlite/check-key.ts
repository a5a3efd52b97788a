import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { createSecretBox, loadKey } from '../secret-box.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { openingFailure } from './failures.ts'
import { realFile } from './open-file.ts'

/** Whether the key opens what this database has encrypted; throws a sentence when it does not. Changes nothing. */
export function checkKey(path: string, key: Uint8Array | null): void {
  const file = realFile(path)
  if (!existsSync(file)) return
  try {
    const db = new DatabaseSync(file, { readOnly: true, timeout: busyTimeoutDefaultMs })
    try {
      const row = db.prepare(`SELECT value FROM settings WHERE name = 'key_check'`).get()
      if (row !== undefined) createSecretBox(key ?? loadKey(`${file}.key`)).open(row.value as Uint8Array, 'key_check')
    } finally {
      db.close()
    }
  } catch (error) {
    throw openingFailure(error, file)
  }
}
