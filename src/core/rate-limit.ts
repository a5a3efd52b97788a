/** A token bucket that holds at most one second's worth of tokens. */
export type Bucket = Readonly<{ tokens: number; at: number }>

export function fullBucket(perSecond: number, now: number): Bucket {
  return { tokens: Math.max(1, perSecond), at: now }
}

/** The bucket after taking one token, or when there will be one. */
export function take(
  bucket: Bucket,
  perSecond: number,
  now: number,
): Readonly<{ kind: 'taken'; bucket: Bucket }> | Readonly<{ kind: 'wait'; until: number }> {
  const elapsedMs = Math.max(0, now - bucket.at)
  const tokens = Math.min(Math.max(1, perSecond), bucket.tokens + (elapsedMs * perSecond) / 1000)
  if (tokens >= 1) return { kind: 'taken', bucket: { tokens: tokens - 1, at: now } }
  return { kind: 'wait', until: now + Math.max(1, Math.ceil(((1 - tokens) * 1000) / perSecond)) }
}
