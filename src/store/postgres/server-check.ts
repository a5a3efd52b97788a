import type { Client } from 'pg'
import { PosthornError } from '../../core/errors.ts'
import { isReplica, rowsOf } from './driver.ts'

const versionMin = 140_000

/** What is wrong with a server: `refusal` keeps Posthorn from starting, `warnings` do not. */
export type ServerReport = Readonly<{ version: string; refusal: PosthornError | null; warnings: readonly string[] }>

/** Looks at the settings on which the promises depend. Changes nothing. */
export async function inspectServer(client: Client): Promise<ServerReport> {
  const rows = await rowsOf(
    client,
    `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
       current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_isolation'),
       current_setting('default_transaction_read_only'), current_setting('fsync'), current_setting('full_page_writes'),
       current_setting('synchronous_commit'), current_user`,
    [],
  )
  const [number, version, encoding, inRecovery, isolation, readOnly, fsync, fullPages, synchronous, user] = (rows[0] ??
    []) as [number, string, string, boolean, string, string, string, string, string, string]
  const warnings: string[] = []
  if (fsync === 'off') warnings.push('fsync is off: after a power cut, acknowledged events may be missing. Turn it on.')
  if (fullPages === 'off') warnings.push('full_page_writes is off: a power cut may damage the database. Turn it on.')
  if (synchronous === 'off' || synchronous === 'local') {
    warnings.push(`synchronous_commit is ${synchronous} here; Posthorn turns it on for what it acknowledges.`)
  }
  return { version, warnings, refusal: refusalOf() }

  function refusalOf(): PosthornError | null {
    if (number < versionMin)
      return refused('store_unavailable', `Posthorn needs Postgres 14 or newer; this is ${version}.`)
    if (inRecovery) return isReplica()
    if (readOnly === 'on') {
      const advice = `ALTER ROLE "${user}" SET default_transaction_read_only = off`
      return refused('store_read_only', `Transactions of the user ${user} are read-only; run ${advice}.`)
    }
    if (encoding !== 'UTF8') {
      return refused('store_unavailable', `The database has the encoding ${encoding}; create one with ENCODING 'UTF8'.`)
    }
    if (isolation !== 'read committed') {
      const advice = `ALTER ROLE "${user}" SET default_transaction_isolation = 'read committed'`
      return refused('store_unavailable', `The isolation level of the user ${user} is ${isolation}; run ${advice}.`)
    }
    return null
  }
}

function refused(code: PosthornError['code'], message: string): PosthornError {
  return new PosthornError(code, message)
}
