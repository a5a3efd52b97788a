import { formatDuration } from '../../core/duration.ts'
import { failedRun } from '../../core/handler-errors.ts'
import type { Report } from '../../core/outcome.ts'
import type { Run } from '../../engines/engine.ts'

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
      return thrown(deathOf(run))
    case 'interrupted':
      return interrupted
  }
}

function thrown(message: string): Report {
  return { kind: 'thrown', ...failedRun(message) }
}

function deathOf({ signal, code }: Extract<Run, { kind: 'died' }>): string {
  if (signal !== null) return `the worker was killed by ${signal}`
  return code === null ? 'the worker died' : `the worker exited with code ${code}`
}
