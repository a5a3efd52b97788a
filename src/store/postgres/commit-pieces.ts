import { setTimeout as pause } from 'node:timers/promises'
import { PosthornError } from '../../core/errors.ts'
import type { Change, ChangeResult } from '../pipeline-store.ts'
import { changesMax, laneName, lanesMax } from './commit.ts'

type Piece = readonly Change[]
type WritePiece = (piece: Piece) => Promise<readonly ChangeResult[]>

const retryEveryMs = 250

/**
 * A call of the port in pieces that hold up others for no longer than they may: by the lanes whose slots they lock, and by
 * the rows that are looked up among them. What follows its head stays with it.
 */
export function piecesOf(changes: readonly Change[]): readonly Piece[] {
  const pieces: Change[][] = []
  let lanes = new Set<string>()
  for (const chain of chainsOf(changes)) {
    const last = pieces.at(-1)
    const more = new Set(chain.flatMap(({ to }) => (to.lane === null ? [] : [laneName(to)])))
    const isFull = last === undefined || last.length + chain.length > changesMax
    if (isFull || lanes.union(more).size > lanesMax) {
      pieces.push([...chain])
      lanes = more
    } else {
      last.push(...chain)
      lanes = lanes.union(more)
    }
  }
  return pieces
}

function chainsOf(changes: readonly Change[]): readonly Piece[] {
  const chains: Change[][] = []
  for (const change of changes) {
    const chain = chains.at(-1)
    if (chain !== undefined && change.follows === true) chain.push(change)
    else chains.push([change])
  }
  return chains
}

/**
 * Writes all of them or, if the first tries were all refused, none: once one is kept, the others are tried until the database
 * takes them.
 */
export async function writePieces(pieces: readonly Piece[], write: WritePiece): Promise<readonly ChangeResult[]> {
  const [only, ...more] = pieces
  if (only === undefined || more.length === 0) return only === undefined ? [] : write(only)
  const tries = await Promise.allSettled(pieces.map(write))
  const [first] = tries
  if (first?.status === 'rejected' && tries.every(({ status }) => status === 'rejected')) throw first.reason
  const results = await Promise.all(
    tries.map((outcome, at) =>
      outcome.status === 'fulfilled' ? outcome.value : writtenLater(outcome.reason, () => write(pieces[at] as Piece)),
    ),
  )
  return results.flat()
}

async function writtenLater(reason: unknown, write: () => ReturnType<WritePiece>): ReturnType<WritePiece> {
  for (let refusal = reason; ; ) {
    if (!(refusal instanceof PosthornError) || !refusal.code.startsWith('store_')) throw refusal
    await pause(retryEveryMs)
    try {
      return await write()
    } catch (error) {
      refusal = error
    }
  }
}
