import { PosthornError } from '../core/errors.ts'
import { ApiProblem, Unreachable } from '../server/client.ts'

export const exitCodes = { ok: 0, failed: 1, usage: 2, shutOut: 3, undecided: 4 } as const

/** The command was called in a wrong way; nothing was done. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The command did its work and the result is not what was asked for. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed'
}

/** Nothing went wrong so far, but it is not known yet whether the result is what was asked for. */
export class Undecided extends Error {
  override readonly name = 'Undecided'
}

/** The edge has sent this hub away for good. Who starts it anew must not do so: two hubs would throw each other out. */
export class ShutOut extends Error {
  override readonly name = 'ShutOut'
}

export type Failure = Readonly<{ lines: readonly string[]; exitCode: number; isExpected: boolean }>

/** What to tell a person about an error, and what to tell the shell. */
export function describeFailure(error: unknown): Failure {
  const lines = linesOf(error)
  if (lines === null) {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { lines: [`unexpected error: ${text}`], exitCode: exitCodes.failed, isExpected: false }
  }
  const isUsage = error instanceof UsageError || (error instanceof PosthornError && error.code === 'config_invalid')
  return { lines, exitCode: isUsage ? exitCodes.usage : codeOf(error), isExpected: true }
}

function codeOf(error: unknown): number {
  if (error instanceof ShutOut) return exitCodes.shutOut
  return error instanceof Undecided ? exitCodes.undecided : exitCodes.failed
}

function linesOf(error: unknown): readonly string[] | null {
  if (error instanceof ApiProblem) return [error.message, ...fieldLines(error), ...adviceFor(error)]
  if (error instanceof PosthornError || error instanceof UsageError || error instanceof CommandFailed) {
    return error.message.split('\n')
  }
  if (error instanceof Unreachable || error instanceof ShutOut || error instanceof Undecided) return [error.message]
  return systemErrorLines(error)
}

function fieldLines(problem: ApiProblem): readonly string[] {
  // With a single field the server says it all in one sentence.
  const [only, ...others] = problem.errors
  if (only !== undefined && others.length === 0 && problem.message.includes(only.message)) return []
  return problem.errors.map(({ path, message }) => (path === '' ? `  ${message}` : `  ${path}: ${message}`))
}

function adviceFor(problem: ApiProblem): readonly string[] {
  return problem.status === 401 ? ['Set POSTHORN_API_KEY to a key of this server.'] : []
}

/** Errors of the operating system that a person can put right: they need no stack. */
function systemErrorLines(error: unknown): readonly string[] | null {
  if (!(error instanceof Error) || !('code' in error)) return null
  const { port, address } = error as { port?: number; address?: string }
  const place = address === undefined ? `port ${port}` : `${address}:${port}`
  switch (error.code) {
    case 'EADDRINUSE':
      return [`something already listens on ${place} (another Posthorn?); choose another port with --port.`]
    case 'EADDRNOTAVAIL':
      return [`${address} is not an address of this machine; choose another with --host.`]
    case 'EACCES':
      if (port !== undefined) return [`not allowed to listen on ${place}; choose a port above 1023 with --port.`]
      return [error.message]
    case 'ENOENT':
    case 'EISDIR':
    case 'EPERM':
      return [error.message]
  }
  return null
}
