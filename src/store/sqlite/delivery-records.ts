import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { Delivery } from '../../core/delivery.ts'
import { deliveryCells, deliveryColumns, toDelivery } from './delivery-rows.ts'
import type { EndpointTable } from './endpoints.ts'
import type { Cell } from './rows.ts'

/** A delivery that the writer is about to change, and what there is to tell of its event. */
export type WriterRecord = Readonly<{ delivery: Delivery; tenant: string; type: string }>

/** Whole deliveries as the writer sees them: what a transition in core/lifecycle starts from. */
export class DeliveryRecords {
  readonly #endpoints: EndpointTable
  readonly #read: StatementSync

  constructor(db: DatabaseSync, endpoints: EndpointTable) {
    this.#endpoints = endpoints
    this.#read = db.prepare(`
      SELECT ${deliveryColumns}, e.id, d.endpoint_no, e.tenant, e.type
      FROM deliveries d JOIN events e ON e.no = d.event_no WHERE d.no = ?`)
    this.#read.setReturnArrays(true)
  }

  /** null: there is none. */
  find(no: number): WriterRecord | null {
    const row = this.#read.get(no) as unknown as Cell[] | undefined
    if (row === undefined) return null
    const [eventId, endpointNo, tenant, type] = row.slice(deliveryCells) as [string, number, string, string]
    const delivery = toDelivery(row, 0, { eventId, endpointId: this.#endpoints.idOf(endpointNo) })
    return { delivery, tenant, type }
  }
}
