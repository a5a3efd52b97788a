import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { MigrationReport } from '../database.ts'
import { busyTimeoutDefaultMs } from './connection.ts'
import { openingFailure } from './failures.ts'
import { makeFolder } from './folder.ts'
import { listMigrations } from './migrations.ts'
import { inspectFile, openFile, realFile } from './open-file.ts'

/** Migrates a database file that no server owns; a dry run changes nothing, not even for a file that is not there. */
export async function migrateFile(path: string, { dryRun }: { dryRun: boolean }): Promise<MigrationReport> {
  const file = realFile(path)
  if (dryRun && !existsSync(file)) {
    const migrations = listMigrations()
    return { from: 0, to: migrations.at(-1)?.version ?? 0, applied: migrations.map(({ name }) => name) }
  }
  try {
    return dryRun ? inspectFile(file) : bringUpToDate(file)
  } catch (error) {
    throw openingFailure(error, file)
  }
}

function bringUpToDate(file: string): MigrationReport {
  makeFolder(dirname(file))
  const { report, close } = openFile(file, busyTimeoutDefaultMs)
  close()
  return report
}
