import { type ErrorCode, PosthornError } from '../../core/errors.ts'

/** SQLite's primary result codes that say something about the file or the disk. */
const meanings: Readonly<Record<number, readonly [ErrorCode, string]>> = {
  5: ['store_locked', 'The database file is locked by another program; end that program.'],
  6: ['store_locked', 'The database is locked inside this process.'],
  7: ['store_unavailable', 'There was not enough memory for the database.'],
  8: ['store_read_only', 'The database file or its folder is read-only; make both writable.'],
  10: ['store_unavailable', 'The disk answered with an error.'],
  11: ['store_corrupt', 'The database file is damaged; restore a backup.'],
  13: ['store_full', 'The disk is full; make room, Posthorn goes on by itself.'],
  14: ['store_missing', 'The database file cannot be opened; check that its folder exists and is writable.'],
  15: ['store_locked', 'The database file is locked by another program; end that program.'],
  26: ['store_corrupt', 'The file is not a SQLite database; name another file or move this one away.'],
}

/** An I/O error with a meaning of its own: the index of the log could not grow. */
const shmSizeErrcode = 4874

const fileSystemMeanings: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  ENOSPC: ['store_full', 'The disk is full; make room and try again.'],
  EDQUOT: ['store_full', 'The disk quota is used up; make room and try again.'],
  EROFS: ['store_read_only', 'The disk is read-only; make it writable.'],
  EACCES: ['store_read_only', 'The folder of the database is not writable for this user; make it so.'],
  EPERM: ['store_read_only', 'The folder of the database is not writable for this user; make it so.'],
  ENOENT: ['store_missing', 'The folder of the database does not exist; make it.'],
  ENOTDIR: ['store_missing', 'The folder of the database is a file; name another path.'],
  EIO: ['store_unavailable', 'The disk answered with an error.'],
}

/** Whether it says that the storage failed, and not that somebody asked for what cannot be. */
export function isStorageCode(code: ErrorCode | null): boolean {
  return code?.startsWith('store_') ?? false
}

/** Translates an error of SQLite or of the file system; null when it says nothing about the storage. */
export function storageFailure(error: unknown): PosthornError | null {
  if (error instanceof PosthornError) return error
  if (!(error instanceof Error)) return null
  const details = error as Error & { errcode?: number; code?: string }
  const meaning = meaningOf(details)
  if (meaning === undefined) return null
  return new PosthornError(meaning[0], `${meaning[1]} (${error.message})`, { cause: error })
}

function meaningOf({ errcode, code }: { errcode?: number; code?: string }): readonly [ErrorCode, string] | undefined {
  if (errcode === undefined) return fileSystemMeanings[code ?? '']
  return errcode === shmSizeErrcode ? meanings[13] : meanings[errcode & 0xff]
}

/**
 * For who opens a file: which one it was. What runs later does not say it, because strangers may get to read it.
 */
export function openingFailure(error: unknown, file: string): unknown {
  const failure = storageFailure(error)
  if (failure === null || failure.message.includes(file)) return failure ?? error
  if (failure.code === 'store_full') {
    const message = `${file}: The disk is full; make room and start Posthorn again. (${error instanceof Error ? error.message : error})`
    return new PosthornError('store_full', message, { cause: error })
  }
  return new PosthornError(failure.code, `${file}: ${failure.message}`, { cause: error })
}

/** An error as it crosses the thread border. */
export type FailureMessage = Readonly<{ code: ErrorCode | null; message: string }>

/** The answer for a new event while outcomes and upkeep are written from the reserve. */
export const shortOfSpace: FailureMessage = {
  code: 'store_full',
  message:
    'The disk is full; make room, Posthorn goes on by itself. Until then it refuses new events, and delivers and prunes from reserved space.',
}

export function toMessage(error: unknown): FailureMessage {
  const failure = storageFailure(error)
  if (failure !== null) return { code: failure.code, message: failure.message }
  return { code: null, message: error instanceof Error ? (error.stack ?? error.message) : String(error) }
}

export function fromMessage(failure: FailureMessage): Error {
  return failure.code === null
    ? new Error(`The store has a defect: ${failure.message}`)
    : new PosthornError(failure.code, failure.message)
}
