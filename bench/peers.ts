import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './rig.ts'

const folder = path.join(root, '.runtime', 'peers')

/** What we are compared with, and where it begins: brought when it is first wanted, and no part of the project. */
const peers = {
  bullmq: { packages: ['bullmq@^6.7.0', 'ioredis@^5'], entry: 'dist/cjs/index.js' },
  'graphile-worker': { packages: ['graphile-worker@~0.18.0'], entry: 'dist/index.js' },
  'pg-boss': { packages: ['pg-boss@12.33.7'], entry: 'dist/index.js' },
} as const
export type Peer = keyof typeof peers

/** The peer's module. */
export function importPeer(name: Peer): Promise<Record<string, unknown>> {
  return import(pathToFileURL(path.join(folder, 'node_modules', name, peers[name].entry)).href)
}

export function installPeer(name: Peer): void {
  if (existsSync(path.join(folder, 'node_modules', name, 'package.json'))) return
  mkdirSync(folder, { recursive: true })
  const { packages } = peers[name]
  const args = ['install', '--prefix', folder, '--no-package-lock', '--no-audit', '--no-fund', ...packages]
  const { status, stderr } = spawnSync('npm', args, { encoding: 'utf8' })
  if (status !== 0)
    throw new Error(`npm could not bring ${packages.join(' and ')}, which the figure compares with: ${stderr}`)
}
