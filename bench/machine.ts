import { closeSync, fdatasyncSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type Latency, latencyOf } from './statistics.ts'

export type Machine = Readonly<{
  date: string
  cpu: string
  cores: number
  memoryGb: number
  kernel: string
  filesystem: string
  fsyncMs: Latency
  node: string
  sqlite: string
  /** Others on the machine make every number worse; this says whether there were any. */
  loadAverage: number
}>

const probes = 300
const probeBytes = 4096

export function describeMachine(folder: string): Machine {
  return {
    date: new Date().toISOString(),
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.cpus().length,
    memoryGb: os.totalmem() / 2 ** 30,
    kernel: `${os.type()} ${os.release()}`,
    filesystem: filesystemOf(folder),
    fsyncMs: probeFsync(folder),
    node: process.versions.node,
    sqlite: process.versions.sqlite ?? 'unknown',
    loadAverage: os.loadavg()[0] ?? Number.NaN,
  }
}

/** How long an append of one page and its fdatasync take, which is what a commit waits for. */
export function probeFsync(folder: string): Latency {
  const file = path.join(folder, 'fsync-probe')
  const page = new Uint8Array(probeBytes).fill(1)
  const tookMs = new Float64Array(probes)
  const descriptor = openSync(file, 'w')
  try {
    for (let i = 0; i < probes; i++) {
      const startedAt = performance.now()
      writeSync(descriptor, page)
      fdatasyncSync(descriptor)
      tookMs[i] = performance.now() - startedAt
    }
  } finally {
    closeSync(descriptor)
    rmSync(file, { force: true })
  }
  return latencyOf(tookMs)
}

const filesystems: Readonly<Record<number, string>> = {
  61267: 'ext4',
  16914836: 'tmpfs (memory: fsync is free here)',
  2435016766: 'btrfs',
  1481003842: 'xfs',
  2035054128: 'overlayfs',
  801189825: 'zfs',
}

function filesystemOf(folder: string): string {
  const { type } = statfsSync(folder)
  return filesystems[type] ?? `type 0x${type.toString(16)}`
}
