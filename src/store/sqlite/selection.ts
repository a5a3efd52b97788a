import type { DeliveryFilter } from '../../core/delivery.ts'
import { type Recovery, replayable, type Selection } from '../../core/replay.ts'

/** The deliveries of any selection but a recovery. A job of one tenant never reaches another's. */
export function selected(selection: Exclude<Selection, Recovery>, tenant: string | null): DeliveryFilter {
  const filter = filterOf(selection)
  if (tenant === null) return replayable(filter)
  if (filter.tenant !== undefined && filter.tenant !== tenant) return { ...filter, statuses: [] }
  return replayable({ ...filter, tenant })
}

function filterOf(selection: Exclude<Selection, Recovery>): DeliveryFilter {
  switch (selection.kind) {
    case 'deliveries':
      return selection.filter
    case 'recover': {
      const { endpointId, since: from, until: to } = selection
      return { endpointId, from, ...(to !== undefined && { to }) }
    }
  }
}

/** Received since this instant is all that the selection can mean; null: from the beginning. */
export function startOf(selection: Selection): number | null {
  switch (selection.kind) {
    case 'deliveries':
      return selection.filter.from ?? null
    case 'recover':
      return selection.since
  }
}
