import type { Client } from 'pg'
import { rowsOf } from './driver.ts'

/** What became of a call; `gone`: the stream is unknown by now, it needs a new one. */
export type Found =
  | Readonly<{ kind: 'kept'; answer: string | null }>
  | Readonly<{ kind: 'not_kept'; seq: number }>
  | Readonly<{ kind: 'gone' }>

/** Begins a write stream; answers its number. Its first call has the number 1. */
export async function newMark(client: Client, schema: string, member: number): Promise<number> {
  const rows = await rowsOf(client, `INSERT INTO ${schema}.marks (member) VALUES ($1) RETURNING stream`, [member])
  return rows[0]?.[0] as number
}

/**
 * Finds out what became of the call with this number, whose answer got lost. It waits for the call if that still runs, and
 * keeps it from running later. Its own answer may get lost too: asked again, it says the same. If it is that late that the
 * stream has gone on, it leaves the mark alone.
 */
export async function findOut(client: Client, schema: string, stream: number, seq: number): Promise<Found> {
  const rows = await rowsOf(
    client,
    `UPDATE ${schema}.marks SET seq = CASE WHEN seq = $2 THEN seq ELSE $2::bigint + 1 END
     WHERE stream = $1 AND seq <= $2::bigint + 1 RETURNING seq, answer`,
    [stream, seq],
  )
  const [row] = rows
  if (row === undefined) return { kind: 'gone' }
  const [now, answer] = row as unknown as [number, string | null]
  return now === seq ? { kind: 'kept', answer } : { kind: 'not_kept', seq: now }
}
