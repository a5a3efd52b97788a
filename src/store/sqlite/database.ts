import { constants, copyFileSync, existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { PosthornError } from '../../core/errors.ts'
import type { Backup, BackupOptions, Check, Database } from '../database.ts'
import { backupFile } from './backup-file.ts'
import { checkKey } from './check-key.ts'
import { checkDatabasePlace, fail, ok, storedDeliveryCheck, storedWaitingMax, warn } from './checkup.ts'
import { readDeliveryState } from './delivery-state.ts'
import { openExport } from './export.ts'
import { migrateFile } from './migrate-file.ts'
import { realFile } from './open-file.ts'
import { openSqliteStore } from './sqlite-store.ts'

/** A database file; `key` null: the key file beside it. */
export function sqliteDatabase(path: string, key: Uint8Array | null): Database {
  return {
    name: resolve(path),
    exists: async () => existsSync(path),
    open: (listener) => openSqliteStore({ file: path, key, ...listener }),
    migrate: (options) => migrateFile(path, options),
    backup: (target, options) => backup(path, key !== null, target, options),
    openExport: async (otherKey) => openExport(path, key, otherKey),
    openImport: async () => {
      throw new PosthornError('invalid', 'An import needs a Postgres database to go to.')
    },
    check: () => check(path, key),
    checkDelivery: async (now) => checkDelivery(path, now),
  }
}

async function backup(path: string, isGiven: boolean, target: string, options: BackupOptions): Promise<Backup> {
  const keyFile = `${realFile(path)}.key`
  const keyTarget = `${target}.key`
  if (options.withKey && isGiven) {
    const message =
      'The key is set by POSTHORN_ENCRYPTION_KEY, not by a file: keep it yourself, and leave --with-key out.'
    throw new PosthornError('invalid', message)
  }
  if (options.withKey && existsSync(keyTarget)) {
    throw new PosthornError('invalid', `${keyTarget} exists already; name another file, a backup overwrites nothing.`)
  }
  const report = await backupFile(path, target, options.onProgress)
  if (isGiven) return { ...report, key: { kind: 'given' } }
  if (!options.withKey) return { ...report, key: { kind: 'left', file: keyFile } }
  copyFileSync(keyFile, keyTarget, constants.COPYFILE_EXCL)
  return { ...report, key: { kind: 'copied', file: keyTarget } }
}

async function check(path: string, key: Uint8Array | null): Promise<readonly Check[]> {
  const place = await checkDatabasePlace(path, key !== null)
  if (!existsSync(path)) return [...place, ok('database', `there is none yet at ${path}; start makes it`)]
  let advice = 'put a backup in its place, or name another with --database'
  try {
    const { from, to, applied } = await migrateFile(path, { dryRun: true })
    // It is whole: nobody should replace it for want of its key.
    advice = `the database is whole: bring the key that belongs to it, as ${path}.key or by POSTHORN_ENCRYPTION_KEY`
    checkKey(path, key)
    if (applied.length === 0) return [...place, ok('database', `version ${to}, and the key fits`)]
    const found = `version ${from}; this Posthorn has ${to}`
    return [...place, warn('database', found, 'make a backup; the next start brings it up to date')]
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    return [...place, fail('database', found, advice)]
  }
}

function checkDelivery(path: string, now: number): readonly Check[] {
  try {
    const state = readDeliveryState(path, now, storedWaitingMax)
    return state === null ? [] : [storedDeliveryCheck(state)]
  } catch {
    // What is wrong with the file is said where the database is looked at.
    return []
  }
}
