import { type ErrorCode, PosthornError } from '../../core/errors.ts'

/** What the server says by its SQLSTATE, and what to do about it. */
const meanings: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [/^53100$/, 'store_full', 'The disk of the database is full; make room, Posthorn goes on by itself.'],
  [/^53300$/, 'store_unavailable', 'The database has no connection left; raise max_connections or use PgBouncer.'],
  [/^53/, 'store_unavailable', 'The database is short of resources.'],
  [/^(25006|25P02)$/, 'store_read_only', 'The database is read-only; name the primary, not a replica.'],
  [/^57014$/, 'store_unavailable', 'The database cancelled a statement; raise statement_timeout for this user.'],
  [/^57P/, 'store_unavailable', 'The database is shutting down or starting.'],
  [/^55P03$/, 'store_unavailable', 'The database waited too long for a lock; raise lock_timeout for this user.'],
  [/^(40001|40P01)$/, 'store_unavailable', 'The database could not agree on an order of locks.'],
  [/^08/, 'store_unavailable', 'The connection to the database broke.'],
  [/^(28P01|28000)$/, 'store_unavailable', 'The database refuses this user; check user, password and pg_hba.conf.'],
  [/^3D000$/, 'store_missing', 'There is no such database; create it, or name another.'],
  [/^42501$/, 'store_unavailable', 'The user of the database lacks rights.'],
  [/^PH001$/, 'store_unavailable', 'This process has lost its place as a writer of the database; it takes a new one.'],
  [/^PH002$/, 'store_unavailable', 'The database must use the isolation level read committed for this user.'],
  [/^XX/, 'store_corrupt', 'The database reports an internal error; look into its log.'],
]

type Details = Readonly<{ code?: string; severity?: string; message: string }>

/** The server refused this. What was asked for was rolled back, if the session goes on. */
export function isRefusal(error: unknown): boolean {
  const { code, severity } = error as Details
  return severity !== undefined && code !== undefined
}

/** The session may be over, and nothing said about a commit that was under way. Severities are in any language; codes are not. */
export function mayEndSession(error: unknown): boolean {
  return /^(08|25P|53|57P|58|XX)/.test((error as Details).code ?? '')
}

/** Two writers waited for each other: one of them tries again. */
function isLockConflict(error: unknown): boolean {
  const { code } = error as Details
  return code === '40P01' || code === '40001'
}

const conflictsMax = 20

/** Does it again for as long as others win. */
export async function despiteConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let conflicts = 0; ; conflicts++) {
    try {
      return await work()
    } catch (error) {
      if (!isLockConflict(error) || conflicts === conflictsMax) throw error
    }
  }
}

/** As a replica is, for as long as it is one. */
export function isReadOnly(error: unknown): boolean {
  return (error as Details).code === '25006'
}

export function hasLostPlace(error: unknown): boolean {
  return (error as Details).code === 'PH001'
}

/** Translates an error of the driver or the server; null when it says that somebody asked for what cannot be. */
export function storageFailure(error: unknown): PosthornError | null {
  if (error instanceof PosthornError) return error
  if (!(error instanceof Error)) return null
  const { code, severity, message } = error as Details
  if (severity === undefined) {
    if (!isNetwork(code, message)) return null
    return new PosthornError('store_unavailable', `The database cannot be reached. (${message || code})`, {
      cause: error,
    })
  }
  const meaning = meanings.find(([pattern]) => pattern.test(code ?? ''))
  if (meaning === undefined) return null
  return new PosthornError(meaning[1], `${meaning[2]} (${message})`, { cause: error })
}

/** The driver has no codes of its own for a connection that is gone. */
function isNetwork(code: string | undefined, message: string): boolean {
  return (
    /^E[A-Z]+$/.test(code ?? '') || /connection|connect|socket|timeout|not queryable|certificate|SSL/i.test(message)
  )
}

export function asFailure(error: unknown): Error {
  const failure = storageFailure(error)
  if (failure !== null) return failure
  const message = error instanceof Error ? error.message : String(error)
  return new Error(`The store has a defect: ${message}`, { cause: error })
}

/** What goes wrong when a database is opened, and how that is put right. */
const openings: readonly (readonly [code: RegExp, message: RegExp, advice: string])[] = [
  [
    /^42501$/,
    /denied for (table|sequence|function|schema)/,
    'What is in the schema belongs to another user: connect as that one.',
  ],
  [
    /^42501$/,
    /./,
    'The user of the database lacks rights. A superuser may run: CREATE SCHEMA posthorn AUTHORIZATION "<user>"; or GRANT CREATE ON DATABASE.',
  ],
  [
    /^28000$/,
    /no encryption|SSL off/i,
    'The server wants TLS: add ?sslmode=verify-full&sslrootcert=<file> to the URL, or ?sslmode=no-verify, which does not check who answers.',
  ],
  [
    /./,
    /certificate|altnames/i,
    'The certificate of the server is not trusted: name that of its authority by ?sslmode=verify-full&sslrootcert=<file> in the URL.',
  ],
  [/^$/, /password must be a string/i, 'The URL has no password: postgres://user:password@host/database.'],
  [/^$/, /does not support SSL/i, 'The server has no TLS: turn it on there, or use ?sslmode=disable in the URL.'],
]

/** For who opens a database. */
export function openingFailure(error: unknown): unknown {
  if (error instanceof PosthornError) return error
  const { code = '', message } = error as Details
  const known = openings.find(([codes, messages]) => codes.test(code) && messages.test(message))
  if (known === undefined) return storageFailure(error) ?? error
  return new PosthornError('store_unavailable', `${known[2]} (${message})`, { cause: error })
}
