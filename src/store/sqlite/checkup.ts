import { randomBytes } from 'node:crypto'
import { accessSync, constants, existsSync, readFileSync, statSync } from 'node:fs'
import { open, rm, statfs } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Check } from '../database.ts'
import type { DeliveryState } from './delivery-state.ts'

const mib = 1024 * 1024
const diskBytesLow = 1024 * mib
const diskBytesMin = 100 * mib
const diskShareLow = 0.05
const walBytesHigh = 256 * mib
const syncs = 32
const syncMsHigh = 20
/** No disk is as quick as this: what is written there is not kept. */
const syncMsLow = 0.01
const keyBytes = 32
/** What waits in a database is counted up to this. */
export const storedWaitingMax = 10_000

export function ok(check: string, found: string): Check {
  return { check, status: 'ok', found, advice: null }
}

export function warn(check: string, found: string, advice: string): Check {
  return { check, status: 'warn', found, advice }
}

export function fail(check: string, found: string, advice: string): Check {
  return { check, status: 'fail', found, advice }
}

/** How delivery was when the server stopped. `waiting` was counted up to a limit. */
export function storedDeliveryCheck(state: DeliveryState): Check {
  const { openBreakers, disabled, waiting, deadLetters, byReason } = state
  const name = 'delivery'
  const waits = waiting > storedWaitingMax ? `more than ${storedWaitingMax}` : waiting
  const reasons =
    byReason.length === 0 ? '' : ` (${byReason.map(([reason, count]) => `${reason} ${count}`).join(', ')})`
  const facts = `open breakers: ${openBreakers}; waiting: ${waits}; dead letters in 24 h: ${deadLetters}${reasons}`
  const found = `no server runs; when it stopped: ${facts}`
  const advice = 'start it with `posthorn start`; then posthorn status shows where to look first'
  if (openBreakers > 0 || deadLetters > 0) return fail(name, found, advice)
  return waiting > 0 || disabled > 0 ? warn(name, found, advice) : ok(name, found)
}

/** Looks at the place of the database, as the file system shows it. Writes nothing but a file that it removes again. */
export async function checkDatabasePlace(path: string, hasKey: boolean): Promise<readonly Check[]> {
  const file = resolve(path)
  const folder = existingFolder(dirname(file))
  const writable = folderCheck(folder)
  const checks = [writable, rightsCheck(file), walCheck(file), keyCheck(file, hasKey), await spaceCheck(folder)]
  if (writable.status !== 'fail') checks.push(await syncCheck(folder))
  return checks
}

/** The folder may not be there yet: then what matters is where it will be made. */
function existingFolder(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : existingFolder(dirname(folder))
}

function folderCheck(folder: string): Check {
  try {
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    return ok('database folder', `${folder} can be written`)
  } catch (error) {
    const advice = `give the user who runs Posthorn the right to write there, or name another place with --database`
    return fail('database folder', messageOf(error), advice)
  }
}

function rightsCheck(file: string): Check {
  const name = 'file rights'
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat === undefined) return ok(name, 'there is no database yet; it will be readable to its owner alone')
  const mode = (stat.mode & 0o777).toString(8).padStart(3, '0')
  if (process.getuid !== undefined && stat.uid !== process.getuid()) {
    return warn(name, `${file} belongs to another user`, 'run this as the user who runs Posthorn')
  }
  if ((stat.mode & 0o077) === 0) return ok(name, `${file} is readable to its owner alone (${mode})`)
  return warn(name, `others on this machine may read what was sent (${mode})`, `chmod 600 ${file}`)
}

function walCheck(file: string): Check {
  const bytes = statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
  if (bytes <= walBytesHigh) return ok('write-ahead log', sizeText(bytes))
  const advice = 'something reads the database for a long time, so that the log cannot be taken in; end it'
  return warn('write-ahead log', `${sizeText(bytes)} is more than it should be`, advice)
}

function keyCheck(file: string, isGiven: boolean): Check {
  const name = 'encryption key'
  const keyFile = `${file}.key`
  if (isGiven) return ok(name, 'it is set by POSTHORN_ENCRYPTION_KEY')
  if (!existsSync(keyFile)) {
    if (!existsSync(file)) return ok(name, 'there is none yet; the first start makes one beside the database')
    return fail(name, `${keyFile} is missing`, 'put the key file back from a backup, or set POSTHORN_ENCRYPTION_KEY')
  }
  try {
    const key = Buffer.from(readFileSync(keyFile, 'utf8').trim(), 'base64')
    if (key.length !== keyBytes) return fail(name, `${keyFile} does not hold a key`, 'put the right file back')
    if ((statSync(keyFile).mode & 0o077) === 0) return ok(name, `${keyFile}; a backup needs it too`)
    return warn(name, 'others on this machine may read the key', `chmod 600 ${keyFile}`)
  } catch (error) {
    return fail(name, messageOf(error), 'run this as the user who runs Posthorn')
  }
}

/** Numbers by which Linux names file systems that are no disk of this machine. */
const remoteSystems: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
])
const memorySystem = 0x01021994

async function spaceCheck(folder: string): Promise<Check> {
  const { bavail, blocks, bsize, type } = await statfs(folder)
  const free = bavail * bsize
  const found = `${sizeText(free)} of ${sizeText(blocks * bsize)} are free`
  const remote = remoteSystems.get(type)
  if (remote !== undefined) return fail('disk', `${folder} is on ${remote}`, 'SQLite needs a disk of this machine')
  if (type === memorySystem) return warn('disk', `${folder} is in memory`, 'all events are lost with the machine')
  const advice = 'make room: when the disk is full, events are refused and deliveries wait'
  if (free < diskBytesMin) return fail('disk', found, advice)
  if (free < diskBytesLow || free < blocks * bsize * diskShareLow) return warn('disk', found, advice)
  return ok('disk', found)
}

/** Every commit waits for one sync of the disk: this is what a single event costs. */
async function syncCheck(folder: string): Promise<Check> {
  const ms = await syncMs(join(folder, `.posthorn-check-${process.pid}`))
  const found = `${ms < 1 ? ms.toFixed(3) : ms.toFixed(1)} ms for a sync`
  if (ms > syncMsHigh) return warn('disk sync', found, 'slow: use a local SSD; events are acknowledged one sync later')
  const advice = 'too quick to be true: after a power cut, acknowledged events may be missing'
  return ms < syncMsLow ? warn('disk sync', found, advice) : ok('disk sync', found)
}

/** The median of several, each of a page that was written just before. */
async function syncMs(file: string): Promise<number> {
  const handle = await open(file, 'w', 0o600)
  try {
    const page = randomBytes(4_096)
    const took: number[] = []
    for (let n = 0; n < syncs; n += 1) {
      await handle.write(page)
      const startedAt = performance.now()
      await handle.sync()
      took.push(performance.now() - startedAt)
    }
    return took.sort((a, b) => a - b)[syncs / 2] ?? 0
  } finally {
    await handle.close()
    await rm(file, { force: true })
  }
}

function sizeText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = bytes === 0 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  const amount = bytes / 1024 ** power
  return `${power === 0 ? amount : amount.toFixed(1)} ${units[power]}`
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
