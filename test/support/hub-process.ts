import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { HubTiming } from '../../src/hub/hub-settings.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const program = fileURLToPath(new URL('./hub-program.ts', import.meta.url))

export type HubOptions = Readonly<{
  edge: string
  key: string
  routes: Readonly<Record<string, string>>
  memoryFile: string
  /** With shorter waits it is a program of the test's own around the same hub; without, it is `posthorn relay`. */
  timing?: Partial<HubTiming>
}>

export type HubProcess = Readonly<{
  child: ChildProcess
  /** What it has said so far. */
  said: () => string
  /** Resolves when it has said this. */
  says(text: RegExp): Promise<void>
  /** Resolves with its exit code when it has ended, for whatever reason; null: by a signal. */
  ended: Promise<number | null>
  kill(): Promise<void>
  /** SIGTERM; answers the exit code. */
  stop(): Promise<number | null>
}>

/** Starts a hub as a process of its own; it is for the edge to tell when it is connected. */
export function startHub({ timing, ...settings }: HubOptions): HubProcess {
  const { edge, key, routes, memoryFile } = settings
  const named = Object.entries(routes).flatMap(([name, url]) => ['--route', `${name}=${url}`])
  const args =
    timing === undefined
      ? [main, 'relay', '--edge', edge, '--key', key, '--memory', memoryFile, ...named]
      : [program, JSON.stringify({ ...settings, timing })]
  const env = { ...process.env, POSTHORN_LOG_LEVEL: 'warn' }
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  const listeners = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said += text
      for (const look of listeners) look()
    })
  }
  const ended = once(child, 'close').then(([code]) => code as number | null)
  return {
    child,
    said: () => said,
    says: (text) =>
      new Promise((resolve) => {
        const look = () => {
          if (!text.test(said)) return
          listeners.delete(look)
          resolve()
        }
        listeners.add(look)
        look()
      }),
    ended,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    stop() {
      child.kill('SIGTERM')
      return ended
    },
  }
}
