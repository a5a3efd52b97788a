/**
 * How several members keep a limit together: each takes its share by the same rule, without asking the others. In sum the
 * shares are the limit, as long as all know the same members.
 */
export function shareOf(limit: number, rank: number, members: number): number {
  return Math.floor(limit / members) + (rank < limit % members ? 1 : 0)
}

/**
 * The same of a limit that is smaller than what was shared out. Who has a share may do one thing at least, so that in sum it
 * may be a little more than the limit.
 */
export function partOf(limit: number, share: number, whole: number): number {
  return share === 0 ? 0 : Math.max(1, Math.floor((limit * share) / whole))
}

/** The place of a member among all, by endpoint: what is left over of a limit does not always fall to the same. */
export function rankOf(endpointId: string, member: string, members: readonly string[]): number {
  const own = weightOf(endpointId, member)
  return members.filter((other) => {
    const weight = weightOf(endpointId, other)
    return weight > own || (weight === own && other < member)
  }).length
}

/** FNV-1a, spread once more: names that differ in their last letter alone are far apart. */
function weightOf(endpointId: string, member: string): number {
  let hash = 0x811c9dc5
  for (const text of [endpointId, ' ', member]) {
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
