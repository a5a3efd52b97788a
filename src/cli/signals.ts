import { constants } from 'node:os'
import type { Terminal } from './terminal.ts'

/** A terminal that is closed says so with SIGHUP: that is no reason to leave anything undone. */
const stopSignals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** A signal to a whole process group comes twice: once to us, and once passed on by who started us. */
const sameSignalMs = 300

/**
 * Resolves with the first signal to stop; a second one ends the process at once. SIGHUP does not: nobody means it, and a
 * terminal, its shell and who started us may all send one.
 */
export function untilStopped(terminal: Terminal): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let stoppingSince: number | null = null
    for (const signal of stopSignals) {
      process.on(signal, () => {
        if (stoppingSince === null) {
          stoppingSince = performance.now()
          resolve(signal)
        } else if (signal !== 'SIGHUP' && performance.now() - stoppingSince > sameSignalMs) {
          terminal.say(`${signal} again: leaving at once`)
          process.exit(128 + constants.signals[signal])
        }
      })
    }
  })
}
