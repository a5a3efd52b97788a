import { asStored } from './arrays.ts'

/** As many as there are rows in lane_slots. */
const slots = 65_536

/** The slot whose lock guards a lane: the same in every process, whether the lane was sent or read back. */
export function slotOf(endpointNo: number, lane: string): number {
  let hash = 0x811c9dc5
  const text = `${endpointNo} ${asStored(lane)}`
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  // The high bits differ most.
  return ((hash >>> 16) ^ hash) & (slots - 1)
}

/** Each once, in the order in which everybody locks them. */
export function slotsOf(lanes: Iterable<readonly [endpointNo: number, lane: string]>): readonly number[] | null {
  const found = new Set<number>()
  for (const [endpointNo, lane] of lanes) found.add(slotOf(endpointNo, lane))
  return found.size === 0 ? null : [...found].sort((a, b) => a - b)
}
