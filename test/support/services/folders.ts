import { chownSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type Account, canEnter } from './account.ts'

const runtime = path.join(import.meta.dirname, '..', '..', '..', '.runtime')
const home = path.join(runtime, 'services')

let aside: string | null = null

/** Where servers of this account have their data: in `.runtime/`, unless that is inside a folder closed to the account. */
export function servicesFolder(account: Account | null): string {
  mkdirSync(home, { recursive: true })
  if (canEnter(account, home)) return home
  aside ??= temporary(account)
  return aside
}

function temporary(account: Account | null): string {
  const folder = given(mkdtempSync(path.join(tmpdir(), 'posthorn-services-')), account)
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A new folder that belongs to the account. It starts with our process id, so that `sweep` knows whose it is. */
export function ownFolder(account: Account | null, name: string, parent = servicesFolder(account)): string {
  if (!canEnter(account, parent)) throw new Error(`${account?.name ?? 'this user'} cannot enter ${parent}`)
  return given(mkdtempSync(path.join(parent, `${process.pid}-${name}-`)), account)
}

function given(folder: string, account: Account | null): string {
  if (account !== null) chownSync(folder, account.uid, account.gid)
  return folder
}

/** Ends the servers, and removes the folders, of runs that were killed. */
export function sweep(): void {
  mkdirSync(home, { recursive: true })
  for (const name of readdirSync(home)) {
    const owner = Number(/^(\d+)-/.exec(name)?.[1])
    if (Number.isNaN(owner) || isAlive(owner)) continue
    const folder = path.join(home, name)
    endProcessesIn(folder)
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Servers end with the process that started them, so there is rarely one. Their working folder is their data's. */
function endProcessesIn(folder: string): void {
  if (process.platform !== 'linux') return
  for (const pid of readdirSync('/proc').map(Number).filter(Number.isInteger)) {
    try {
      if (`${readlinkSync(`/proc/${pid}/cwd`)}/`.startsWith(`${folder}/`)) process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself, or is somebody else's.
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
