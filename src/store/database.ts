import type { ImportSource, ImportTarget } from './import-records.ts'
import type { Store, WrittenBatch } from './store.ts'

/** A database that may or may not be open in some process, and what its adapter can do with it. */
export interface Database {
  /** What logs show: where it is, without secrets. */
  readonly name: string

  /** Whether there is one already, of whatever version. Changes nothing. */
  exists(): Promise<boolean>

  /** Opens it for this process, and makes it or brings its schema up to date first. */
  open(listener: StoreListener): Promise<OpenedStore>

  /** Brings the schema up to date; a dry run changes nothing and says what that would take. */
  migrate(options: Readonly<{ dryRun: boolean }>): Promise<MigrationReport>

  /** A consistent copy, whether a server runs on the database or not. It overwrites nothing. */
  backup(target: string, options: BackupOptions): Promise<Backup>

  /** For `import`: opens it to be read through while nobody else may change it. `otherKey`: the key where no key file is. */
  openExport(otherKey: Uint8Array | null): Promise<ImportSource>

  /** For `import`: opens it to be filled. Changes nothing yet. */
  openImport(): Promise<ImportTarget>

  /** For `doctor`: the place of the database, its schema and its key. Changes nothing. */
  check(): Promise<readonly Check[]>

  /** For `doctor` when no server runs: how delivery was when the last one stopped. Changes nothing. */
  checkDelivery(now: number): Promise<readonly Check[]>
}

export type StoreListener = Readonly<{
  /** The store has ended by a defect: nothing can be kept any more, the process has to end. */
  onFatal: (error: Error) => void
  /** Told of every transaction that wrote something. */
  onBatch?: (batch: WrittenBatch) => void
  /** Something about the database that is dangerous, in a sentence for a person. */
  onWarning?: (warning: string) => void
}>

/** A store and the last number of its ids, from which new ids go on. */
export type OpenedStore = Readonly<{ store: Store; lastNumber: number }>

export type MigrationReport = Readonly<{ from: number; to: number; applied: readonly string[] }>

export type BackupOptions = Readonly<{ withKey: boolean; onProgress: (bytesDone: number) => void }>

export type Backup = Readonly<{
  bytes: number
  events: number
  deliveries: number
  /** The copy was read through and found whole. */
  verified: true
  /** What opens the secrets in it: its file was copied, or left where it is, or it was given in the configuration. */
  key: Readonly<{ kind: 'copied' | 'left'; file: string }> | Readonly<{ kind: 'given' }>
}>

/** One thing that was looked at, in words for the person who runs the machine. */
export type Check = Readonly<{
  check: string
  status: 'ok' | 'warn' | 'fail'
  found: string
  /** What to do about it; null when there is nothing to do. */
  advice: string | null
}>
