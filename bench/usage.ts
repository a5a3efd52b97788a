import { readFileSync } from 'node:fs'
import { sleep } from './clock.ts'

/** Clock ticks per second of /proc, the same on every Linux that Node runs on. */
const ticksPerSecond = 100

/** CPU seconds that a process has used so far, all of its threads, the ended ones included. */
export function cpuSeconds(pid: number): number {
  return ticksIn(procFile(pid, 'stat')) / ticksPerSecond
}

function procFile(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch (cause) {
    throw new Error(`process ${pid}, which is being measured, is gone`, { cause })
  }
}

/** utime + stime. The name of the command may hold spaces and brackets, so fields are counted from its end. */
export function ticksIn(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

/**
 * CPU seconds of a server that works in processes of its own making, as Postgres does: of its main process and of all that
 * it started, the ended ones included.
 */
export function treeCpuSeconds(pid: number): number {
  for (;;) {
    const children = childrenOf(pid)
    const used = children.map((child) => ticksOrNull(child))
    const own = procFile(pid, 'stat')
    // One that ended meanwhile is counted with the main process, and must not be counted twice.
    const isSame = !used.includes(null) && childrenOf(pid).join() === children.join()
    if (isSame) return used.reduce<number>((sum, ticks) => sum + (ticks ?? 0), ticksWithEnded(own)) / ticksPerSecond
  }
}

function childrenOf(pid: number): readonly number[] {
  return procFile(pid, `task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

/** null: it has ended. */
function ticksOrNull(pid: number): number | null {
  try {
    return ticksWithEnded(procFile(pid, 'stat'))
  } catch {
    return null
  }
}

/** utime + stime, and those of the children that have ended. */
function ticksWithEnded(stat: string): number {
  const [utime, stime, endedUtime, endedStime] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 15)
    .map(Number)
  return (utime ?? 0) + (stime ?? 0) + (endedUtime ?? 0) + (endedStime ?? 0)
}

export type Memory = Readonly<{ rssMb: number; anonymousMb: number; fileMb: number; peakMb: number }>

export function memoryOf(pid: number): Memory {
  const status = procFile(pid, 'status')
  return {
    rssMb: megabytesIn(status, 'VmRSS'),
    anonymousMb: megabytesIn(status, 'RssAnon'),
    fileMb: megabytesIn(status, 'RssFile'),
    peakMb: megabytesIn(status, 'VmHWM'),
  }
}

export function megabytesIn(status: string, field: string): number {
  const match = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)
  return match === null ? Number.NaN : Number(match[1]) / 1024
}

const quietWindowMs = 250
const quietTicksMax = 2

/**
 * Waits until the process does next to nothing, so that what it still had to do for the run (the last outcomes, a
 * checkpoint, a collection of garbage) is charged to the run. Answers whether it came to rest in time.
 */
export function settled(pid: number, timeoutMs: number): Promise<boolean> {
  return allSettled(() => cpuSeconds(pid), timeoutMs)
}

/** The same for several processes that work together: `used` is what they have used so far. */
export async function allSettled(used: () => number, timeoutMs: number): Promise<boolean> {
  const giveUpAt = performance.now() + timeoutMs
  for (let before = used(); performance.now() < giveUpAt; ) {
    await sleep(quietWindowMs)
    const after = used()
    if ((after - before) * ticksPerSecond < quietTicksMax) return true
    before = after
  }
  return false
}
