// Drives the command line as people do: as a process, with pipes or a terminal.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

export const main = path.join(import.meta.dirname, '../../src/cli/main.ts')
const waitMsMax = 30_000

export type Result = Readonly<{ code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }>
export type Env = Readonly<Record<string, string>>
/** `program`: another file than the command line itself. */
export type Options = Readonly<{ env?: Env; input?: string | Uint8Array; cwd?: string; program?: string }>

/** The environment of the tests without what would change a result. */
export function cleanEnv(env: Env = {}): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) =>
      !/^(?:POSTHORN_|NODE_TEST|NO_COLOR$|FORCE_COLOR$|NODE_DISABLE_COLORS$|CI$|TEAMCITY_VERSION$|NODE_OPTIONS$)/.test(
        name,
      ),
  )
  return { ...Object.fromEntries(kept), ...env }
}

/** Runs a command to its end. */
export async function posthorn(args: readonly string[], options: Options = {}): Promise<Result> {
  const running = start(args, options, waitMsMax)
  running.child.stdin.end(options.input ?? '')
  return running.ended
}

export type Running = Readonly<{
  child: ChildProcessWithoutNullStreams
  ended: Promise<Result>
  /** The first line of either stream that matches, as soon as it is there. */
  line: (pattern: RegExp) => Promise<string>
  stop: (signal?: NodeJS.Signals) => Promise<Result>
}>

export function start(args: readonly string[], { env, cwd, program = main }: Options = {}, timeout?: number): Running {
  return watched(spawn(process.execPath, [program, ...args], { env: cleanEnv(env), cwd, timeout }))
}

function watched(child: ChildProcessWithoutNullStreams): Running {
  const text = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      text[name] += chunk
      child.emit('text')
    })
  }
  child.stdin.on('error', () => undefined)
  const ended = once(child, 'close').then(([code, signal]): Result => ({ code, signal, ...text }))
  const found = (pattern: RegExp) => `${text.stdout}\n${text.stderr}`.split('\n').find((line) => pattern.test(line))
  const line = async (pattern: RegExp): Promise<string> => {
    const signal = AbortSignal.timeout(waitMsMax)
    for (;;) {
      const match = found(pattern)
      if (match !== undefined) return match
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`ended without ${pattern}:\n${text.stdout}\n${text.stderr}`)
      }
      await Promise.race([once(child, 'text', { signal }), once(child, 'close', { signal })])
    }
  }
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => {
    child.kill(signal)
    return ended
  }
  return { child, ended, line, stop }
}

export const hasScript = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0

/** Starts a command on a terminal of 80 columns; what is written to `stdin` are keys that are pressed. */
export function startOnTerminal(args: readonly string[], options: Options = {}): Running {
  return watched(spawnOnTerminal(args, options))
}

function spawnOnTerminal(args: readonly string[], { env, program = main }: Options): ChildProcessWithoutNullStreams {
  const quoted = [process.execPath, program, ...args].map((arg) => `'${arg.replaceAll("'", "'\\''")}'`).join(' ')
  const command = `stty cols 80 rows 24; ${quoted}`
  return spawn('script', ['-qec', command, '/dev/null'], {
    env: cleanEnv({ TERM: 'xterm-256color', ...env }),
    timeout: waitMsMax,
  })
}

/** Runs a command on a terminal of 80 columns; what it shows comes back with its colours. */
export function onTerminal(args: readonly string[], options: Options = {}): Promise<Result> {
  const { input = '' } = options
  const child = spawnOnTerminal(args, options)
  let stdout = ''
  let isTyped = input === ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    stdout += chunk
    // A terminal's answer is typed when the question is there.
    if (isTyped || !stdout.includes('[y/N] ')) return
    isTyped = true
    child.stdin.write(input)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code, signal) => resolve({ code, signal, stdout: stdout.replaceAll('\r\n', '\n'), stderr: '' }))
  })
}
