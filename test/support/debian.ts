import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import path from 'node:path'
import type { TestContext } from 'node:test'
import { isCi } from './ci.ts'

const tries = 3
const installMsMax = 4 * 60_000
/** In a folder of root's, so that nobody else can hold it: of two test files that need packages, one waits. */
const lockFile = '/var/lib/dpkg/posthorn-tests.lock'
/** Where Debian puts servers. It is not on the PATH of every user. */
const sbin = '/usr/sbin'

export type Tool = Readonly<{ kind: 'found'; path: string } | { kind: 'missing'; why: string }>

/** The path of a command of a Debian package. The test is skipped without it and says why; in continuous integration it fails. */
export function toolOf(t: TestContext, command: string, packageName: string): string | null {
  const tool = findTool(command, packageName)
  if (tool.kind === 'found') return tool.path
  if (isCi()) throw new Error(tool.why)
  t.skip(tool.why)
  return null
}

/** Root on Debian installs the package when the command is missing. */
export function findTool(command: string, packageName: string): Tool {
  const problem = onPath(command) === null ? install(packageName) : null
  const found = onPath(command)
  if (found !== null) return { kind: 'found', path: found }
  const why = `${command} is missing (Debian package ${packageName}): ${problem ?? 'the package does not contain it'}`
  return { kind: 'missing', why }
}

export function onPath(command: string): string | null {
  const folders = [...(process.env.PATH ?? '').split(path.delimiter).filter((folder) => folder !== ''), sbin]
  return folders.map((folder) => path.join(folder, command)).find(isExecutable) ?? null
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Answers why it could not be installed; null: it was. */
export function install(packageName: string): string | null {
  if (process.getuid?.() !== 0) return 'only root can install it'
  if (!existsSync('/var/lib/dpkg') || onPath('apt-get') === null) return 'this is not Debian'
  // The lists may be old or missing, which is also a reason to try again.
  const script = `apt-get install -y --no-install-recommends "$1" || { apt-get update; exit 1; }`
  const options = {
    encoding: 'utf8',
    timeout: installMsMax,
    // So that packages start no services: the first is for init scripts, the second for systemd.
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1', SYSTEMD_OFFLINE: '1' },
  } as const
  let said = ''
  for (let at = 0; at < tries; at++) {
    const result = spawnSync('flock', [lockFile, 'sh', '-c', script, 'sh', packageName], options)
    if (result.status === 0) return null
    said = [result.error?.message, result.stderr].filter(Boolean).join('\n').trim()
  }
  return said
}
