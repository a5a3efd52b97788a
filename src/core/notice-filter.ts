import type { Notice } from './notice.ts'
import { typeMatcher } from './routing.ts'

/** What somebody wants to hear of. null, or an empty list: all of them. */
export type NoticeFilter = Readonly<{
  tenant: string | null
  endpointId: string | null
  types: readonly string[]
  kinds: readonly string[]
}>

export const everyNotice: NoticeFilter = { tenant: null, endpointId: null, types: [], kinds: [] }

/** Compiled once: this runs for every notice. */
export function noticeMatcher({ tenant, endpointId, types, kinds }: NoticeFilter): (notice: Notice) => boolean {
  const wantedKinds = kinds.length === 0 ? null : new Set(kinds)
  const wantsType = types.length === 0 ? null : typeMatcher(types)
  return (notice) => {
    if (tenant !== null && notice.tenant !== tenant) return false
    if (wantedKinds !== null && !wantedKinds.has(notice.kind)) return false
    if (endpointId !== null && !('endpointId' in notice && notice.endpointId === endpointId)) return false
    return wantsType === null || ('type' in notice && wantsType(notice.type))
  }
}

/** Of several processes that share the store, who publishes a notice of this kind. */
const publishers: Readonly<Record<Notice['kind'], 'one' | 'all'>> = {
  'event.accepted': 'one',
  'attempt.settled': 'one',
  'delivery.ended': 'one',
  'breaker.changed': 'one',
  'lane.stuck': 'one',
  'relay.changed': 'one',
  // Each process finds these in the store by itself.
  'endpoint.changed': 'all',
  'replay.changed': 'all',
}

/** Whether other processes do not know of it unless they are sent it. */
export function isKnownToOne({ kind }: Pick<Notice, 'kind'>): boolean {
  return publishers[kind] === 'one'
}
