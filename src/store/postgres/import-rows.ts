import { isSettled } from '../../core/delivery.ts'
import type { IdPrefix } from '../../core/id.ts'
import type { RegistryItems, RegistryKind } from '../../core/registry.ts'
import { splitSecrets } from '../../core/registry.ts'
import type { KeptDelivery, RecordKind, Records } from '../import-records.ts'
import type { SecretBox } from '../secret-box.ts'
import { byteas, int4s, int8s, keys, texts } from './arrays.ts'
import { attemptValues } from './attempt-rows.ts'
import { endOf } from './commit.ts'
import type { EndpointTable } from './endpoints.ts'
import { fromHeaders } from './event-rows.ts'
import { beforeAll } from './matching.ts'
import { keysWithin } from './row-keys.ts'

/** What rows name by number, and what encrypts secrets. */
export type ImportParts = Readonly<{ endpoints: EndpointTable; box: SecretBox }>

/** A column, the type of its elements, and the array of its values. */
type Column = readonly [name: string, type: string, values: unknown]

const text = <T>(name: string, rows: readonly T[], cell: (row: T) => string | null): Column => [
  name,
  'text',
  texts(rows.map(cell)),
]
const int = <T>(name: string, rows: readonly T[], cell: (row: T) => number | null): Column => [
  name,
  'int',
  int4s(rows.map(cell)),
]
const long = <T>(name: string, rows: readonly T[], cell: (row: T) => number | null): Column => [
  name,
  'bigint',
  int8s(rows.map(cell)),
]
const key = <T>(name: string, prefix: IdPrefix, rows: readonly T[], id: (row: T) => string): Column => [
  name,
  'uuid',
  keys(prefix, rows.map(id)),
]

export type Insert = Readonly<{ table: string; columns: readonly Column[] }>

export function insertSql(schema: string, { table, columns }: Insert): string {
  const names = columns.map(([name]) => name).join(', ')
  const arrays = columns.map(([, type], place) => `$${place + 1}::${type}[]`).join(', ')
  return `INSERT INTO ${schema}.${table} (${names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest(${arrays})`
}

type Inserts = {
  readonly [K in RecordKind]: (records: readonly Records[K][], parts: ImportParts) => readonly Insert[]
}

/** The rows of records, as they are inserted. */
export const inserts: Inserts = {
  endpoints: (rows) => [
    {
      table: 'endpoints',
      columns: [
        int('no', rows, ({ no }) => no),
        text('id', rows, ({ id }) => id),
        text('tenant', rows, ({ tenant }) => tenant),
        ['removed', 'boolean', rows.map(({ removed }) => removed)],
        text('breaker', rows, ({ condition }) => (condition === null ? null : JSON.stringify(condition.breaker))),
        long('held_until', rows, ({ condition }) => condition?.heldUntil ?? null),
        long('failing_since', rows, ({ condition }) => condition?.failingSince ?? null),
        text('last_error', rows, ({ condition }) => condition?.lastError ?? null),
        long('last_error_at', rows, ({ condition }) => condition?.lastErrorAt ?? null),
      ],
    },
  ],
  registry: (rows, { box }) => {
    const split = rows.map(({ kind, item }) => splitSecrets(kind, item as RegistryItems[RegistryKind]))
    const sealed = split.map(({ secrets }, at) =>
      secrets === null ? null : box.seal(JSON.stringify(secrets), rows[at]?.item.id ?? ''),
    )
    return [
      {
        table: 'registry',
        columns: [
          text('kind', rows, ({ kind }) => kind),
          text('id', rows, ({ item }) => item.id),
          int('version', rows, ({ version }) => version),
          text('scope', rows, ({ unique }) => unique?.scope ?? null),
          text('name', rows, ({ unique }) => unique?.name ?? null),
          text('settings', split, ({ settings }) => JSON.stringify(settings)),
          ['secrets', 'bytea', byteas(sealed)],
        ],
      },
    ]
  },
  replays: replayInserts,
  events: eventInserts,
  deliveries: (rows, parts) => [
    ...liveInserts(
      rows.filter(({ delivery }) => !isSettled(delivery.status)),
      parts,
    ),
    ...endedInserts(
      rows.filter(({ delivery }) => isSettled(delivery.status)),
      parts,
    ),
  ],
  attempts: (rows) => {
    const names = [
      'delivery',
      'number',
      'started_at',
      'took_ms',
      'status_code',
      'outcome',
      'error',
      'response_headers',
      'response_body',
      'stack',
      'error_class',
      'dependency',
    ]
    const types = ['uuid', 'int', 'bigint', 'int', 'int', ...names.slice(5).map(() => 'text')]
    const values = attemptValues(rows)
    return [{ table: 'attempts', columns: names.map((name, at) => [name, types[at] ?? 'text', values[at]]) }]
  },
  idempotencyKeys: (rows) => [
    {
      table: 'idempotency_keys',
      columns: [
        text('scope', rows, ({ scope }) => scope),
        text('key', rows, ({ key }) => key),
        text('fingerprint', rows, ({ fingerprint }) => fingerprint),
        key('event_id', 'evt', rows, ({ eventId }) => eventId),
        int('deliveries', rows, ({ deliveries }) => deliveries),
        long('received_at', rows, ({ receivedAt }) => receivedAt),
        long('expires_at', rows, ({ expiresAt }) => expiresAt),
      ],
    },
  ],
  origins: (rows) => [
    {
      table: 'origins',
      columns: [
        text('scope', rows, ({ scope }) => scope),
        text('id', rows, ({ id }) => id),
        key('event_id', 'evt', rows, ({ eventId }) => eventId),
        int('deliveries', rows, ({ deliveries }) => deliveries),
      ],
    },
  ],
  // No write stream has the number 0.
  deadLetterHours: (rows, { endpoints }) => [
    {
      table: 'dead_letter_hours',
      columns: [
        int('hour', rows, ({ hour }) => hour),
        int('endpoint', rows, ({ endpointId }) => endpoints.find(endpointId).no),
        text('reason', rows, ({ reason }) => reason),
        int('stream', rows, () => 0),
        int('count', rows, ({ count }) => count),
      ],
    },
  ],
}

function replayInserts(rows: readonly Records['replays'][]): readonly Insert[] {
  const replays = rows.map(({ replay }) => replay)
  const settings = replays.map(({ selection, rate, note, by }) => JSON.stringify({ selection, rate, note, by }))
  return [
    {
      table: 'replays',
      columns: [
        int('no', rows, ({ no }) => no),
        text('id', replays, ({ id }) => id),
        text('tenant', replays, ({ tenant }) => tenant),
        text('status', replays, ({ status }) => status),
        ['settings', 'text', texts(settings)],
        long('matched', replays, ({ matched }) => matched),
        long('requeued', replays, ({ requeued }) => requeued),
        long('delivered', replays, ({ delivered }) => delivered),
        long('failed_again', replays, ({ failedAgain }) => failedAgain),
        long('skipped', replays, ({ skipped }) => skipped),
        ['done_id', 'uuid', rows.map(({ doneNo }) => lastKeyOf(doneNo))],
        ['last_id', 'uuid', rows.map(({ lastNo }) => lastKeyOf(lastNo))],
        long('created_at', replays, ({ createdAt }) => createdAt),
        long('updated_at', replays, ({ updatedAt }) => updatedAt),
        long('ended_at', replays, ({ endedAt }) => endedAt),
        long('settled_at', replays, ({ settledAt }) => settledAt),
      ],
    },
  ]
}

/** Behind every id with this number, and before every id with the next. */
function lastKeyOf(number: number): string {
  return number === 0 ? beforeAll : keysWithin(number, number)[1]
}

function eventInserts(events: readonly Records['events'][]): readonly Insert[] {
  const requests = events.map(({ request }) => (request === null ? null : JSON.stringify(request)))
  return [
    {
      table: 'events',
      columns: [
        key('id', 'evt', events, ({ id }) => id),
        long('received_at', events, ({ receivedAt }) => receivedAt),
        int('size', events, ({ body }) => body.length),
        int('data_offset', events, ({ dataOffset }) => dataOffset),
        text('tenant', events, ({ tenant }) => tenant),
        text('type', events, ({ type }) => type),
        text('key', events, ({ key }) => key),
        text('content_type', events, ({ contentType }) => contentType),
        text('headers', events, ({ headers }) => fromHeaders(headers)),
        ['request', 'text', texts(requests)],
        ['body', 'bytea', byteas(events.map(({ body }) => body))],
      ],
    },
  ]
}

function commonColumns(rows: readonly KeptDelivery[], { endpoints }: ImportParts): readonly Column[] {
  const facts = rows.map(({ delivery }) => delivery)
  return [
    key('id', 'dlv', facts, ({ id }) => id),
    key('event_id', 'evt', facts, ({ eventId }) => eventId),
    long('received_at', facts, ({ receivedAt }) => receivedAt),
    long('last_attempt_at', facts, ({ lastAttemptAt }) => lastAttemptAt),
    long('replayed_at', facts, ({ replayedAt }) => replayedAt),
    int('endpoint', facts, ({ endpointId }) => endpoints.find(endpointId).no),
    int('version', facts, ({ version }) => version),
    int('attempts', facts, ({ attempts }) => attempts),
    int('tries_in_budget', facts, ({ triesInBudget }) => triesInBudget),
    int('replay', rows, ({ replayNo }) => replayNo),
    int('size', rows, ({ size }) => size),
    text('lane', facts, ({ lane }) => lane),
    text('last_error', facts, ({ lastError }) => lastError),
  ]
}

function liveInserts(rows: readonly KeptDelivery[], parts: ImportParts): readonly Insert[] {
  if (rows.length === 0) return []
  const columns: readonly Column[] = [
    ...commonColumns(rows, parts),
    long('due_at', rows, ({ delivery }) => (delivery.status === 'pending' ? delivery.dueAt : null)),
    // They grow with the order in the lane. The sequence goes on behind them: see `finish`.
    long('position', rows, ({ position }) => position),
    long('retry_after', rows, ({ delivery }) => delivery.retryAfter),
    int('interruptions', rows, ({ interruptions }) => interruptions),
  ]
  return [{ table: 'live', columns }]
}

function endedInserts(rows: readonly KeptDelivery[], parts: ImportParts): readonly Insert[] {
  if (rows.length === 0) return []
  const ended = rows.map(({ delivery }) => delivery)
  const columns: readonly Column[] = [
    ...commonColumns(rows, parts),
    long('settled_at', ended, endOf),
    text('status', ended, ({ status }) => status),
    text('reason', ended, (to) => (to.status === 'failed' || to.status === 'dead_letter' ? to.reason : null)),
  ]
  return [{ table: 'ended', columns }]
}
