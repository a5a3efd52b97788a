import { formatDuration } from '../core/duration.ts'
import { failedRun } from '../core/handler-errors.ts'
import type { Report } from '../core/outcome.ts'
import { type Death, deathText } from '../core/worker-death.ts'
import type { Run } from './engine.ts'

const interrupted: Report = { kind: 'interrupted', message: 'the try was interrupted' }
const handled: Report = { kind: 'handled' }

/** What a run says of its try. */
export function reportOf(run: Run, timeoutMs: number): Report {
  switch (run.kind) {
    case 'returned':
      return handled
    case 'threw':
      return { kind: 'thrown', ...run.thrown }
    case 'overran':
      return thrown(`the handler did not end within ${formatDuration(timeoutMs)}`)
    case 'died':
      return dead(run.death)
    case 'interrupted':
      return interrupted
  }
}

function thrown(message: string): Report {
  return { kind: 'thrown', ...failedRun(message) }
}

/** It says nothing about what is to become of the delivery, even if its last error did: whatever it held is gone. */
function dead(death: Death): Report {
  const { errorClass = null, stack = null } = death.uncaught ?? {}
  return { kind: 'thrown', ...failedRun(deathText(death)), errorClass, stack }
}

/** Waits for the run to settle, at most one more timeout; then order is best effort. */
export async function settledOrTime(settled: Promise<void>, waitMs: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, waitMs)
  const onAbort = (): void => resolve()
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) resolve()
  await Promise.race([settled, promise])
  clearTimeout(timer)
  signal.removeEventListener('abort', onAbort)
}
