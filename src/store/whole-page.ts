import type { Page } from './record-store.ts'

/** After this many pieces a page is given as it is: nobody waits for ever for a filter that matches rarely. */
const piecesMax = 50

type PageQuery = Readonly<{ limit: number; cursor?: string }>

/**
 * Puts a page together from pieces, each of which looks at a bounded number of rows: other reads come in between. A page
 * with fewer than `limit` and a `next` is not the last one.
 */
export async function wholePage<T>(query: PageQuery, read: (piece: PageQuery) => Promise<Page<T>>): Promise<Page<T>> {
  const items: T[] = []
  let { cursor } = query
  for (let pieces = 1; ; pieces++) {
    const piece = await read({ limit: query.limit - items.length, ...(cursor !== undefined && { cursor }) })
    items.push(...piece.items)
    if (piece.next === null || items.length >= query.limit || pieces === piecesMax) return { items, next: piece.next }
    cursor = piece.next
  }
}
