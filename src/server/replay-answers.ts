import { z } from 'zod'
import { deliveryStatuses, statusClasses } from '../core/delivery.ts'
import { reasons } from '../core/outcome.ts'
import { blockedWhys, countsOf, type Replay, replayStatuses } from '../core/replay.ts'
import { recoverOnly, type Selection } from '../core/selection.ts'
import { deliveryAnswer, idShown, instantShown } from './answers.ts'
import { filterShown } from './filter-schema.ts'
import { instant } from './shown.ts'

// Dead letters and replays as the API shows them, and the schemas that say so.

const filterAnswer = z.strictObject({
  tenant: z.string().optional(),
  endpoint: z.string().optional(),
  event: z.string().optional(),
  replay: z.string().optional(),
  status: z.array(z.enum(deliveryStatuses)).optional(),
  statusClass: z.array(z.enum(statusClasses)).optional(),
  key: z.string().optional(),
  type: z.string().optional(),
  reason: z.enum(reasons).optional(),
  error: z.string().optional(),
  from: instantShown.optional(),
  to: instantShown.optional(),
  ids: z.array(z.string()).optional(),
})

const recoverAnswer = z.strictObject({
  endpoint: idShown('ep'),
  since: instantShown,
  until: instantShown.optional(),
  only: z.enum(recoverOnly),
})

const outcomes = z.int().min(0).nullable()
const uncounted = 'null: an older version made the replay and did not count.'

export const replayAnswer = z
  .strictObject({
    id: idShown('rpl'),
    status: z.enum(replayStatuses).meta({
      description: '`finished`: everything is requeued. `settled`: and every outcome is known.',
    }),
    matched: z.int().min(0).meta({ description: 'How many there were when the replay was made.' }),
    requeued: z.int().min(0).meta({ description: '= delivered + failedAgain + waiting.' }),
    delivered: outcomes.meta({ description: `Requeued, and delivered since. ${uncounted}` }),
    failedAgain: outcomes.meta({ description: `Requeued, and a dead letter again, for any reason. ${uncounted}` }),
    waiting: outcomes.meta({ description: `Requeued, with no outcome yet. ${uncounted}` }),
    skipped: z.int().min(0).meta({ description: 'Could not be requeued: their endpoint is gone.' }),
    rate: z
      .number()
      .nullable()
      .meta({ description: 'Deliveries a second; null: only so fast that others do not notice.' }),
    note: z.string(),
    by: z.string(),
    tenant: z.string().nullable(),
    filter: filterAnswer.nullable(),
    recover: recoverAnswer.nullable().meta({ description: 'Of a job that `recover` of an endpoint has made.' }),
    createdAt: instantShown,
    updatedAt: instantShown,
    endedAt: instantShown.nullable().meta({ description: 'When everything was requeued, or the rest was cancelled.' }),
    settledAt: instantShown.nullable().meta({ description: 'When it had ended and every outcome was known.' }),
  })
  .meta({ id: 'Replay' })

export const previewAnswer = z
  .strictObject({ matched: z.int().min(0), sample: z.array(deliveryAnswer) })
  .meta({ id: 'Preview', description: 'What would be concerned: how many, and a few of them. Nothing was done.' })

export const replayPreviewAnswer = z
  .strictObject({
    ...previewAnswer.shape,
    blocked: z
      .array(z.strictObject({ endpointId: idShown('ep'), why: z.enum(blockedWhys) }))
      .meta({ description: 'Endpoints of these deliveries that take nothing now: what is requeued there waits.' }),
    leftOut: z.strictObject({ cancelled: z.int().min(0), endpoint_deleted: z.int().min(0) }).meta({
      description: 'Dead letters that match and are left out, because the filter does not name their reason.',
    }),
  })
  .meta({
    id: 'ReplayPreview',
    description: 'What a replay would requeue: how many, and a few of them. Nothing was done.',
  })

export const cancelledAnswer = z
  .strictObject({
    cancelled: z.int().min(0),
    next: z.string().nullable().meta({ description: 'The cursor to go on with after `limit`. Null: that was all.' }),
  })
  .meta({ id: 'CancelledDeliveries' })

export const discardedAnswer = z.strictObject({ discarded: z.int().min(0) }).meta({ id: 'Discarded' })

export function replayShown(replay: Replay): Record<string, unknown> {
  return {
    id: replay.id,
    status: replay.status,
    ...countsOf(replay),
    rate: replay.rate,
    note: replay.note,
    by: replay.by,
    tenant: replay.tenant,
    ...selectionShown(replay.selection),
    createdAt: instant(replay.createdAt),
    updatedAt: instant(replay.updatedAt),
    endedAt: instant(replay.endedAt),
    settledAt: instant(replay.settledAt),
  }
}

function selectionShown(selection: Selection): Record<string, unknown> {
  switch (selection.kind) {
    case 'deliveries':
      return { filter: filterShown(selection.filter), recover: null }
    case 'recover': {
      const { endpointId, since, until, only } = selection
      const times = { since: instant(since), ...(until !== undefined && { until: instant(until) }) }
      return { filter: null, recover: { endpoint: endpointId, ...times, only } }
    }
  }
}
