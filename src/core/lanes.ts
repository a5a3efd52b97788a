import type { Ordering } from './endpoint.ts'

/**
 * The lane of a delivery inside its endpoint: deliveries of one lane are attempted one after another, in the order
 * of acceptance. null: order does not matter.
 */
export function laneOf(ordering: Ordering, key: string | null): string | null {
  switch (ordering) {
    case 'none':
      return null
    case 'key':
      return key === null ? null : `key:${key}`
    case 'endpoint':
      return 'all'
  }
}
