import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { onPath } from '../debian.ts'

const runtime = path.join(import.meta.dirname, '..', '..', '..', '.runtime')
const tries = 3

export type Preparation = Readonly<{
  /** Below `.runtime/`. */
  name: string
  /** A shell script that fills the folder `$1`, which is there and empty. */
  script: string
  /** What the script finds from `$2` on. */
  args: readonly string[]
  env?: NodeJS.ProcessEnv
  msMax: number
}>

/**
 * A folder that is filled once. It is there whole or not at all; of several runs that need it, one fills it and the others
 * wait. Answers why it could not be filled; null: it is there.
 */
export function prepare({ name, script, args, env, msMax }: Preparation): string | null {
  const home = preparedFolder(name)
  if (existsSync(home)) return null
  mkdirSync(path.dirname(home), { recursive: true })
  const whole = `
    [ -d "$0" ] && exit 0
    rm -rf "$0.fresh" && mkdir "$0.fresh" || exit 1
    fill() { ${script}
    }
    (fill "$0.fresh" "$@") && mv "$0.fresh" "$0"`
  // The lock ends with its process, however that ends. Without flock, two runs at once do the work twice.
  const lock = onPath('flock') === null ? [] : ['flock', `${home}.lock`]
  const [command = 'sh', ...rest] = [...lock, 'sh', '-c', whole, home, ...args]
  let said = ''
  for (let at = 0; at < tries; at++) {
    const result = spawnSync(command, rest, { encoding: 'utf8', timeout: msMax, env: { ...process.env, ...env } })
    if (result.status === 0) return null
    said = [result.error?.message, result.stdout, result.stderr].filter(Boolean).join('\n').trim().slice(-2_000)
  }
  return said
}

export function preparedFolder(name: string): string {
  return path.join(runtime, name)
}
