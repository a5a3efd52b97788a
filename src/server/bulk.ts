import { z } from 'zod'
import type { DeliveryFilter } from '../core/delivery.ts'
import { sampleMax } from '../dispatch/replays.ts'
import { type DetailParts, deliveryShown } from './delivery-detail.ts'
import { type FieldError, validationProblem } from './problem.ts'
import { says } from './schemas.ts'

// What the verbs that touch many deliveries have in common.

export const dryRun = z.boolean({ error: says('must be true or false') }).default(false)
export const all = z.literal(true, { error: says('must be true, or left out') }).optional()

/** The rule below in the words of JSON Schema. */
export const filterOrAll = {
  anyOf: [
    { required: ['filter'], properties: { filter: { minProperties: 1 }, all: false } },
    { required: ['all'], properties: { filter: false } },
  ],
}

/** Nobody touches everything by a slip: no condition at all has to be said in so many words. `what`: like `dead letter`. */
export function requireScope(filter: object, isAll: boolean, what: string): void {
  const problem = scopeProblem(Object.keys(filter).length === 0, isAll, what)
  if (problem !== null) throw validationProblem([problem])
}

function scopeProblem(isEmpty: boolean, isAll: boolean, what: string): FieldError | null {
  if (isEmpty && !isAll) return { path: 'filter', message: `must name something; for every ${what} say {"all": true}` }
  return isAll && !isEmpty ? { path: 'all', message: `means every ${what}; leave it or the filter out` } : null
}

/** How many would be touched, and a few of them. */
export async function previewOf(parts: DetailParts, filter: DeliveryFilter) {
  const { store } = parts
  const matched = await store.countDeliveries(filter, Number.MAX_SAFE_INTEGER)
  const { items } = await store.listDeliveries({ ...filter, limit: sampleMax })
  return { matched, sample: items.map(deliveryShown(parts)) }
}
