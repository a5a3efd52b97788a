import { constants } from 'node:os'
import type { Terminal } from './terminal.ts'

const stopSignals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM']

/** A signal to a whole process group comes twice: once to us, and once passed on by who started us. */
const sameSignalMs = 300

/** Resolves with the first signal to stop; a second one ends the process at once. */
export function untilStopped(terminal: Terminal, signals = stopSignals): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let stoppingSince: number | null = null
    for (const signal of signals) {
      process.on(signal, () => {
        if (stoppingSince === null) {
          stoppingSince = performance.now()
          resolve(signal)
        } else if (performance.now() - stoppingSince > sameSignalMs) {
          terminal.say(`${signal} again: leaving at once`)
          process.exit(128 + constants.signals[signal])
        }
      })
    }
  })
}
