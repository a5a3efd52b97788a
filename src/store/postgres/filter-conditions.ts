import type { DeliveryFilter } from '../../core/delivery.ts'
import { isOwnType } from '../../core/routing.ts'
import type { EventQuery } from '../record-store.ts'
import { asStored, int4s, keys } from './arrays.ts'
import { rowKeyOf } from './row-keys.ts'

/** Each `?` stands for the next value. */
export type Condition = readonly [sql: string, ...values: unknown[]]

/** The values of a statement, and their places in its text. */
export class Given {
  readonly values: unknown[] = []

  add(value: unknown): string {
    return `$${this.values.push(value)}`
  }

  all(conditions: readonly Condition[]): string {
    if (conditions.length === 0) return 'true'
    const [sql, ...values] = joined(conditions)
    let at = 0
    return sql.replaceAll('?', () => this.add(values[at++]))
  }
}

/** Of live and ended deliveries alike; statuses, reasons, the endpoint and the replay are for the ways. */
export function checksOf(filter: DeliveryFilter, schema: string): readonly Condition[] {
  const { ids, eventId, error, from, to, statusClasses } = filter
  const conditions: Condition[] = []
  if (ids !== undefined) conditions.push(idsCondition(ids))
  if (eventId !== undefined) conditions.push(eventCondition(eventId))
  if (from !== undefined) conditions.push(['d.received_at >= ?', from])
  if (to !== undefined) conditions.push(['d.received_at < ?', to])
  if (error !== undefined) conditions.push(['strpos(lower(d.last_error), lower(?)) > 0', asStored(error)])
  if (statusClasses !== undefined) {
    const last = 'a.delivery = d.id AND a.number = d.attempts'
    conditions.push([
      `(SELECT a.status_code / 100 = ANY (?::int[]) FROM ${schema}.attempts a WHERE ${last})`,
      int4s(statusClasses.map(Number.parseFloat)),
    ])
  }
  return conditions
}

export function eventConditions({
  tenant,
  type,
  key,
}: Pick<EventQuery, 'tenant' | 'type' | 'key'>): readonly Condition[] {
  const conditions: Condition[] = []
  if (tenant !== undefined) conditions.push(['e.tenant = ?', asStored(tenant)])
  if (key !== undefined) conditions.push(['e.key = ?', asStored(key)])
  if (type !== undefined) conditions.push(typeCondition(type))
  return conditions
}

/** The types that typeMatcher (core/routing) wants for this pattern. */
export function typeCondition(pattern: string): Condition {
  const parts = asStored(pattern).split('.')
  if (!parts.includes('*')) return ['e.type = ?', asStored(pattern)]
  const expression = parts.map((part, at) => {
    if (part !== '*') return part.replace(/\W/g, '\\$&')
    return at === parts.length - 1 ? '.+' : '[^.]+'
  })
  const wanted: Condition = ['e.type ~ ?', `^${expression.join('\\.')}$`]
  return isOwnType(pattern) ? wanted : joined([wanted, [`NOT starts_with(e.type, 'posthorn.')`]])
}

export function idsCondition(ids: readonly string[]): Condition {
  return ['d.id = ANY (?::uuid[])', keys('dlv', ids)]
}

export function eventCondition(eventId: string): Condition {
  return ['d.event_id = ?::uuid', rowKeyOf('evt', eventId)]
}

function joined(conditions: readonly Condition[]): Condition {
  const sql = conditions.map(([each]) => `(${each})`).join(' AND ')
  return [sql, ...conditions.flatMap(([, ...values]) => values)]
}
