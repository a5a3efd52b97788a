import { existsSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { Ages, type Clock } from '../../core/clock.ts'
import type { EndReport, HubMemory, KeptEnd } from '../hub-memory.ts'
import { openingFailure, storageFailure } from './failures.ts'
import { makeFolder } from './folder.ts'
import { openMemoryDatabase, putAside } from './hub-memory-database.ts'
import { realFile } from './open-file.ts'
import { becomeOwner, type Owner } from './owner.ts'

export type HubMemorySettings = Readonly<{
  file: string
  clock: Clock
  /** The file was damaged; it is put aside under this name, and a new one is begun. */
  onDamage: (damage: Readonly<{ file: string; aside: string; why: string }>) => void
  endsMax?: number
  ageMsMax?: number
}>

const endsMaxDefault = 50_000
/** A day longer than a delivery waits for its hub before it is a dead letter. */
const ageMsMaxDefault = 8 * 86_400_000
/** Each of these many ends makes room for as many and a few more. */
const pruneEvery = 64
const pruneMax = 128
/** Of an answer this much is remembered: it bounds the file. */
const bodyLengthMax = 1_024
const messageLengthMax = 300

const ownedByAnotherHub = 'Each hub has a memory of its own: stop that one, or name another file for this one.'

/** Opens the memory as its only owner. Throws a `PosthornError` that says what to do. */
export function openHubMemory(settings: HubMemorySettings): HubMemory {
  const file = realFile(settings.file)
  try {
    makeFolder(dirname(file))
    const wasOwned = existsSync(`${file}-owner`)
    const owner = becomeOwner(file, ownedByAnotherHub)
    try {
      return new HubMemoryFile({ ...settings, file }, owner, wasOwned)
    } catch (error) {
      owner.release()
      // It would make a file that is not ours look like one.
      if (!wasOwned) rmSync(`${file}-owner`, { force: true })
      throw error
    }
  } catch (error) {
    throw openingFailure(error, file)
  }
}

class HubMemoryFile implements HubMemory {
  readonly #settings: HubMemorySettings
  readonly #owner: Owner
  readonly #ages: Ages
  #open: OpenMemory
  #keptSincePrune = 0

  constructor(settings: HubMemorySettings, owner: Owner, wasOwned: boolean) {
    this.#settings = settings
    this.#owner = owner
    this.#ages = new Ages(settings.clock)
    this.#open = this.#begin(wasOwned)
  }

  find(delivery: string, bornAt: number): KeptEnd | null {
    const row = this.#do(({ find }) => find.get(delivery, bornAt))
    if (row === undefined) return null
    const report = reportFrom(String(row.report))
    return report === null ? null : { delivery, bornAt, report, tookMs: Number(row.took_ms) }
  }

  keep({ delivery, bornAt, report, tookMs }: KeptEnd): void {
    const keptAt = this.#settings.clock.wall()
    this.#do(({ keep }) => keep.run(delivery, bornAt, keptAt, tookMs, JSON.stringify(shortened(report))))
    this.#keptSincePrune++
    if (this.#keptSincePrune < pruneEvery) return
    this.#keptSincePrune = 0
    this.#prune()
  }

  probe(): void {
    this.#do(({ db }) => {
      db.exec('BEGIN IMMEDIATE')
      try {
        db.exec('UPDATE probe SET written = written + 1')
        db.exec('COMMIT')
      } catch (error) {
        if (db.isTransaction) db.exec('ROLLBACK')
        throw error
      }
    })
  }

  close(): void {
    try {
      this.#open.db.close()
    } catch {
      // It is closed already, or the disk is gone: what could be kept has been kept.
    }
    this.#owner.release()
  }

  #begin(wasOwned: boolean): OpenMemory {
    const { file } = this.#settings
    try {
      return prepared(openMemoryDatabase(file, wasOwned))
    } catch (error) {
      const failure = storageFailure(error)
      if (failure?.code !== 'store_corrupt') throw error
      return this.#beginAnew(failure.message)
    }
  }

  #beginAnew(why: string): OpenMemory {
    const { file, onDamage } = this.#settings
    onDamage({ file, aside: putAside(file), why })
    return prepared(openMemoryDatabase(file, true))
  }

  /** Damage may show only while it is in use. What it held can at most save a repeat: a new file is better than none. */
  #do<T>(work: (open: OpenMemory) => T): T {
    try {
      return work(this.#open)
    } catch (error) {
      const failure = storageFailure(error)
      if (failure === null) throw error
      if (failure.code !== 'store_corrupt') throw failure
      this.#open.db.close()
      this.#open = this.#beginAnew(failure.message)
      return work(this.#open)
    }
  }

  /** In small steps: nothing waits for it. That it failed will show when something is kept. */
  #prune(): void {
    const { endsMax = endsMaxDefault, ageMsMax = ageMsMaxDefault } = this.#settings
    const ages = this.#ages.look()
    // A clock that was just set says nothing about ages; the number of ends is bounded all the same.
    const keptBefore = ages === null ? Number.NEGATIVE_INFINITY : ages.now - ageMsMax
    const { from, to, byMs } = ages?.correction ?? { from: 0, to: 0, byMs: 0 }
    try {
      this.#open.prune.run(endsMax, keptBefore, pruneMax, from, to, byMs)
    } catch (error) {
      if (storageFailure(error) === null) throw error
    }
  }
}

type OpenMemory = ReturnType<typeof prepared>

function prepared(db: DatabaseSync) {
  return {
    db,
    find: db.prepare('SELECT report, took_ms FROM ends WHERE delivery = ? AND born_at = ?'),
    keep: db.prepare(
      'INSERT OR REPLACE INTO ends (delivery, born_at, kept_at, took_ms, report) VALUES (?, ?, ?, ?, ?)',
    ),
    // The oldest come first by their number, so no more rows are looked at than may go.
    prune: db.prepare(`
      DELETE FROM ends WHERE number IN (
        SELECT number FROM (SELECT number, kept_at FROM ends ORDER BY number LIMIT ?3)
        WHERE number <= (SELECT max(number) FROM ends) - ?1 OR kept_at + iif(kept_at BETWEEN ?4 AND ?5, ?6, 0) < ?2
      )`),
  }
}

function shortened(report: EndReport): EndReport {
  switch (report.kind) {
    case 'answered': {
      const { kind, statusCode, body } = report
      return { kind, statusCode, headers: {}, body: body.slice(0, bodyLengthMax).toWellFormed() }
    }
    case 'blocked':
      return { kind: report.kind, message: report.message.slice(0, messageLengthMax).toWellFormed() }
  }
}

/** null for what was not written by `keep`: then it is as if nothing had been kept. */
function reportFrom(text: string): EndReport | null {
  try {
    const { kind, statusCode, body, message } = JSON.parse(text) as Readonly<Record<string, unknown>>
    if (kind === 'blocked' && typeof message === 'string') return { kind, message }
    if (kind !== 'answered' || typeof statusCode !== 'number' || typeof body !== 'string') return null
    return { kind, statusCode, headers: {}, body }
  } catch {
    return null
  }
}
