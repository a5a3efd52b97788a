import type { StoreHealth } from '../store/store.ts'

export type Readiness = Readonly<{ ready: boolean; reasons: readonly string[] }>

/** Whether events can be taken in and outcomes kept right now; if not, why, in sentences. */
export function readinessOf(state: { store: StoreHealth; outcomesWritable: boolean; stopping: boolean }): Readiness {
  const reasons: string[] = []
  if (state.stopping) reasons.push('Posthorn is shutting down.')
  if (!state.store.writable) reasons.push(state.store.problem ?? 'The store cannot be written.')
  if (!state.outcomesWritable) reasons.push('Outcomes of tries cannot be written, so no new try starts.')
  return { ready: reasons.length === 0, reasons }
}
