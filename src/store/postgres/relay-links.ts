import { PosthornError } from '../../core/errors.ts'
import type { HubLink, LinkKey, LinkPut } from '../cluster-store.ts'
import { int8s, texts } from './arrays.ts'
import { type Queryable, rowsOf } from './driver.ts'

export type RelayLinksParts = Readonly<{
  on: Queryable
  schema: string
  /** The number of this member. */
  member: () => number
  /** Called when a hub has come, gone or moved. */
  onMoved: () => void
}>

/** After an outage all hubs come back at once. */
const linksAtOnce = 500

/** Which member each hub is connected to. */
export class RelayLinks {
  readonly #parts: RelayLinksParts

  constructor(parts: RelayLinksParts) {
    this.#parts = parts
  }

  async open(): Promise<void> {
    const { on, schema } = this.#parts
    await rowsOf(on, `SELECT ${schema}.forget_links_v1()`, [])
  }

  async put(links: readonly LinkPut[]): Promise<readonly (number | null)[]> {
    const epochs = new Map<string, number | null>()
    for (const piece of inPieces(links)) {
      const answers = await this.#put(piece)
      for (const [index, { relayId }] of piece.entries()) epochs.set(relayId, answers[index] ?? null)
    }
    if (links.some(({ epoch }) => epoch === null)) this.#parts.onMoved()
    return links.map(({ relayId }) => epochs.get(relayId) ?? null)
  }

  async #put(links: readonly LinkPut[]): Promise<readonly (number | null)[]> {
    const { on, schema, member } = this.#parts
    const values = [
      member(),
      texts(links.map(({ relayId }) => relayId)),
      texts(links.map(({ session }) => session)),
      int8s(links.map(({ epoch }) => epoch)),
      texts(links.map(({ facts }) => JSON.stringify(facts))),
    ]
    const [row] = await rowsOf(on, `SELECT ${schema}.put_links_v1($1, $2, $3, $4, $5)`, values)
    const epochs = (row?.[0] ?? null) as readonly (string | null)[] | null
    if (epochs === null)
      throw new PosthornError('conflict', 'This process is no member any more: it has to join again.')
    return epochs.map((epoch) => (epoch === null ? null : Number(epoch)))
  }

  async drop(links: readonly LinkKey[]): Promise<void> {
    const { on, schema, onMoved } = this.#parts
    for (const piece of inPieces(links)) {
      const values = [texts(piece.map(({ relayId }) => relayId)), int8s(piece.map(({ epoch }) => epoch))]
      const [row] = await rowsOf(on, `SELECT ${schema}.drop_links_v1($1, $2)`, values)
      if (row?.[0] === true) onMoved()
    }
  }

  async list(): Promise<readonly HubLink[]> {
    const { on, schema } = this.#parts
    const rows = await rowsOf(
      on,
      `SELECT l.relay, m.id, l.session, l.epoch, l.facts
       FROM ${schema}.relay_links l JOIN ${schema}.members m ON m.no = l.member WHERE NOT m.fenced ORDER BY l.relay`,
      [],
    )
    return rows.map(([relayId, member, session, epoch, facts]) => ({
      relayId: relayId as string,
      member: member as string,
      session: session as string,
      epoch: epoch as number,
      facts: JSON.parse(facts as string),
    }))
  }
}

/** In the order in which rows are locked. */
function inPieces<T extends Readonly<{ relayId: string }>>(links: readonly T[]): readonly (readonly T[])[] {
  const sorted = links.toSorted((a, b) => (a.relayId < b.relayId ? -1 : 1))
  const pieces: T[][] = []
  for (let at = 0; at < sorted.length; at += linksAtOnce) pieces.push(sorted.slice(at, at + linksAtOnce))
  return pieces
}
