import type { Delivery, Settled } from '../../core/delivery.ts'
import { ended, expired } from '../../core/lifecycle.ts'
import type { Reason } from '../../core/outcome.ts'
import { mayCancel, mayEndUnserved, mayExpire } from '../../core/selection.ts'
import type { Change, ChangeResult } from '../pipeline-store.ts'
import { keys } from './arrays.ts'
import { deliveriesSql, deliveryCells, deliveryColumns, toDelivery } from './delivery-rows.ts'
import { type Queryable, type Row, rowsOf } from './driver.ts'
import type { EndpointTable } from './endpoints.ts'

/** A delivery as it was read, and what there is to tell of its event. */
export type Read<T extends Delivery = Delivery> = Readonly<{ delivery: T; tenant: string; type: string }>

export type RevivalParts = Readonly<{
  on: Queryable
  schema: string
  endpoints: EndpointTable
  commit: (changes: readonly Change[]) => Promise<readonly ChangeResult[]>
}>

const triesMax = 5

/** Changes of deliveries that nobody has in hand: read, decided by core, and committed if they are still as they were read. */
export class Revival {
  readonly #parts: RevivalParts

  constructor(parts: RevivalParts) {
    this.#parts = parts
  }

  /** Ends those that may be cancelled, in this order. */
  cancel(deliveryIds: readonly string[], now: number): Promise<readonly Read[]> {
    return this.#end(deliveryIds, (delivery) => (mayCancel(delivery) ? ended(delivery, 'cancelled', now) : null))
  }

  expire(deliveryIds: readonly string[], now: number): Promise<readonly Read[]> {
    return this.#end(deliveryIds, (delivery) => (mayExpire(delivery) ? expired(delivery, now) : null))
  }

  /** Ends what waits for an endpoint that was removed. */
  endUnserved(deliveryIds: readonly string[], reason: Reason, now: number): Promise<readonly Read[]> {
    return this.#end(deliveryIds, (delivery) => (mayEndUnserved(delivery, now) ? ended(delivery, reason, now) : null))
  }

  /** By id, in the order of the ids; what is gone is left out. */
  async read(deliveryIds: readonly string[]): Promise<readonly Read[]> {
    const { on, schema, endpoints } = this.#parts
    const sql = `
      SELECT ${deliveryColumns}, e.tenant, e.type FROM ${deliveriesSql(schema)} d
      JOIN ${schema}.events e ON e.id = d.event_id WHERE d.id = ANY ($1)`
    const rows = await rowsOf(on, sql, [keys('dlv', deliveryIds)])
    const found = new Map(rows.map((row) => [idIn(row, endpoints), row]))
    return deliveryIds.flatMap((id) => {
      const row = found.get(id)
      if (row === undefined) return []
      const [tenant, type] = row.slice(deliveryCells) as [string, string]
      return [{ delivery: toDelivery(row, 0, endpoints), tenant, type }]
    })
  }

  /** The end of a head changes the next in its lane, which may be among them: what was stale is looked at again. */
  async #end(deliveryIds: readonly string[], end: (delivery: Delivery) => Settled | null): Promise<readonly Read[]> {
    const done: Read[] = []
    let left = deliveryIds
    for (let tries = 0; tries < triesMax && left.length > 0; tries++) {
      const wanted = (await this.read(left)).flatMap((read) => {
        const to = end(read.delivery)
        return to === null ? [] : [{ read, to }]
      })
      if (wanted.length === 0) break
      const results = await this.#parts.commit(wanted.map(({ to }) => ({ to, attempt: null, claimNext: null })))
      const isApplied = wanted.map((_each, at) => results[at]?.kind === 'applied')
      done.push(...wanted.flatMap(({ read }, at) => (isApplied[at] === true ? [read] : [])))
      left = wanted.flatMap(({ to }, at) => (isApplied[at] === true ? [] : [to.id]))
    }
    const order = new Map(deliveryIds.map((id, at) => [id, at]))
    return done.sort((a, b) => (order.get(a.delivery.id) ?? 0) - (order.get(b.delivery.id) ?? 0))
  }
}

function idIn(row: Row, endpoints: EndpointTable): string {
  return toDelivery(row, 0, endpoints).id
}
