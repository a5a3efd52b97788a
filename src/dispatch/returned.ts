import type { Claim } from '../store/pipeline-store.ts'
import type { Tried } from './attempt.ts'
import type { Decision } from './decide.ts'

/** An attempt that has come back, and what is to be written of it. */
export type Returned = Readonly<{ claim: Claim; tried: Tried; decision: Decision; now: number }>
