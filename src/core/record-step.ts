import { nextStep } from './lifecycle.ts'
import type { Outcome, Reason } from './outcome.ts'
import type { RetryPolicy } from './retry-policy.ts'

/** What becomes of a record after an attempt. */
export type RecordStep =
  | Readonly<{ kind: 'done' }>
  /** It is tried again; its lane waits until then. */
  | Readonly<{ kind: 'again'; dueAt: number }>
  /** Something of our own is down, and other records would fail too: nothing is spent, and the consumer waits. */
  | Readonly<{ kind: 'hold' }>
  | Readonly<{ kind: 'dead'; reason: Reason }>

export type RecordAttempt = Readonly<{
  outcome: Outcome
  /** Attempts that count against the policy, this one included. */
  tries: number
  policy: RetryPolicy
  /** In [0, 1), for the jitter. */
  random: number
  now: number
}>

export function stepAfter({ outcome, tries, policy, random, now }: RecordAttempt): RecordStep {
  switch (outcome.kind) {
    case 'delivered':
      return { kind: 'done' }
    case 'permanent':
      return { kind: 'dead', reason: outcome.reason }
    case 'ours':
      return { kind: 'hold' }
    case 'retryable':
    case 'unavailable': {
      const step = nextStep(tries, outcome, policy, random, now)
      return step.kind === 'again' ? step : { kind: 'dead', reason: 'exhausted' }
    }
  }
}
