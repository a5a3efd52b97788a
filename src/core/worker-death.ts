import type { Thrown } from './handler-errors.ts'

/** How a process that ran handlers ended: by a signal, with an exit code, or it never began (then both are null). */
export type Death = Readonly<{
  signal: string | null
  code: number | null
  /** The line of its stderr that says why; null when there is none. */
  lastWords: string | null
  /** The error that nothing in it caught, if that was the end of it. */
  uncaught: Thrown | null
}>

/** One sentence for a person: the signal or exit code, and the reason if one is known. */
export function deathText({ signal, code, lastWords, uncaught }: Death): string {
  if (uncaught !== null) return `the worker ended with an uncaught error: ${uncaught.message}`
  const how =
    signal !== null
      ? `the worker was killed by ${signal}`
      : code !== null
        ? `the worker exited with code ${code}`
        : 'the worker died'
  return lastWords === null ? how : `${how}: ${lastWords}`
}

const fatal =
  /^\W*fatal\b|out of memory|panicked at|assertion .*failed|check failed|double free|corrupt|terminate called/i
const stackFrame = /^\s*(?:\d+: )?0x[\da-f]+/i

/** Whether a line on stderr says why a process is about to die. */
export function isLastWord(line: string): boolean {
  return fatal.test(line) && !stackFrame.test(line)
}
