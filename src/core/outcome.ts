/** What a transport saw of one try: facts, never a decision. The failure classifier turns it into an Outcome. */
export type Report =
  | Readonly<{
      kind: 'answered'
      statusCode: number
      headers: Readonly<Record<string, string>>
      /** The first bytes of the response, as text; bounded by the transport. */
      body: string
    }>
  /** No usable answer: `code` is the network error's code, e.g. ECONNREFUSED, or one of ours, e.g. DEADLINE. */
  | Readonly<{ kind: 'unreachable'; code: string; message: string }>
  /** The address guard refused to connect. */
  | Readonly<{ kind: 'blocked'; message: string }>
  /** The other end says beforehand that it takes nothing of this size. */
  | Readonly<{ kind: 'oversized'; message: string }>
  /** We ended the try ourselves (shutdown, lost lease): it says nothing about the endpoint. */
  | Readonly<{ kind: 'interrupted'; message: string }>
  /** The handler returned. */
  | Readonly<{ kind: 'handled' }>
  /** The handler threw, rejected or outlived its deadline; `verdict` is what it said of that, `retryable` if nothing. */
  | Readonly<{
      kind: 'thrown'
      verdict: Verdict
      message: string
      /** The class of what was thrown; null: it has none, or nothing was thrown. */
      errorClass: string | null
      /** What the handler says is unavailable. */
      dependency: string | null
      stack: string | null
      retryAfterMs: number | null
    }>

/** What a handler may say of its own failure; `ours` is `infrastructure(…)`. */
export type Verdict = 'retryable' | 'permanent' | 'unavailable' | 'ours'

export const outcomeKinds = ['delivered', 'permanent', 'retryable', 'unavailable', 'ours'] as const
export type OutcomeKind = (typeof outcomeKinds)[number]

/** What a try meant. */
export type Outcome =
  | Readonly<{ kind: 'delivered' }>
  | Readonly<{ kind: 'permanent'; reason: Reason; error: string }>
  /** `retryAfterMs` is what the endpoint asked for, already capped; it lengthens the wait and holds the endpoint. */
  | Readonly<{ kind: 'retryable'; error: string; retryAfterMs: number | null }>
  | Readonly<{ kind: 'unavailable'; error: string; retryAfterMs: number | null }>
  /** Our own fault (shutdown, EMFILE, disk): no attempt is spent and the breaker is untouched. */
  | Readonly<{ kind: 'ours'; error: string }>

/** Why a delivery became a dead letter. Documented in docs/concepts.md. */
export const reasons = [
  'exhausted',
  'permanent_status',
  'gone',
  'expired',
  'endpoint_deleted',
  'cancelled',
  'breaker_open',
  'crashed',
  'too_large',
  'rejected_by_handler',
  'blocked_address',
] as const
export type Reason = (typeof reasons)[number]

/**
 * A person asked for these to end: they are counted, but are no news and need nobody's attention. A replay does not touch
 * them unless it asks for the reason.
 */
export const askedFor = ['cancelled', 'endpoint_deleted'] as const satisfies readonly Reason[]

/** Whether a dead letter with this reason is bad news. */
export function isUnwanted(reason: Reason): boolean {
  return !(askedFor as readonly Reason[]).includes(reason)
}
