import { z } from 'zod'
import { cursorQuery, says } from './schemas.ts'

type WithId = Readonly<{ id: string }>

/** Limit and cursor of a list that is kept in memory: its cursor is the id of the last one seen. */
export function idPaging(prefix: string) {
  const error = says('must be the `next` of a page of this list')
  const cursor = z.string({ error }).regex(new RegExp(`^${prefix}_[0-9a-z]{1,64}$`), { error })
  return { limit: cursorQuery.limit, cursor: cursor.exactOptional() }
}

/** One page, oldest first: ids sort by age. What is made or deleted meanwhile neither hides nor doubles another. */
export function pageById<T extends WithId>(
  things: readonly T[],
  { limit, cursor = '' }: Readonly<{ limit: number; cursor?: string }>,
): Readonly<{ items: readonly T[]; next: string | null }> {
  const rest = things.filter(({ id }) => id > cursor).sort((a, b) => (a.id < b.id ? -1 : 1))
  const items = rest.slice(0, limit)
  return { items, next: rest.length > limit ? (items.at(-1)?.id ?? null) : null }
}
