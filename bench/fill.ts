import { randomFillSync } from 'node:crypto'
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { setImmediate as turn } from 'node:timers/promises'
import { formatId, numberAfter, numberOf } from '../src/core/id.ts'

/**
 * Makes a large backlog fast. Every pending delivery in the file is a template, with its event: they are copied, turn
 * by turn, with ids, numbers and times of their own, as if one event had come in every millisecond before them. All
 * else is taken from the template, so that the rows are those that `append` writes, whatever their columns are.
 */

const eventVaries = ['no', 'id', 'received_at'] as const
const deliveryVaries = ['no', 'id', 'event_no', 'position', 'due_at', 'received_at'] as const
const rowsPerTransaction = 200_000
const bytesPerId = 12

type Template = Readonly<{ insertEvent: StatementSync; insertDelivery: StatementSync }>

export async function multiplyPending(file: string, count: number): Promise<void> {
  const db = openFast(file)
  try {
    const templates = templatesIn(db)
    const oldest = db.prepare(`SELECT min(received_at) AS at FROM deliveries WHERE status = 'pending'`).get()
    const startAt = Number(oldest?.at) - count
    const random = new RandomBytes()
    let last = 0
    for (let from = 0; from < count; from += rowsPerTransaction) {
      db.exec('BEGIN')
      for (let i = from; i < Math.min(count, from + rowsPerTransaction); i++) {
        last = insertOne(templates[i % templates.length] as Template, startAt + i, last, random)
      }
      db.exec('COMMIT')
      // Signals are heard between two transactions.
      await turn()
    }
  } finally {
    db.close()
  }
  syncFile(file)
}

function insertOne(template: Template, receivedAt: number, last: number, random: RandomBytes): number {
  const eventNo = numberAfter(last, receivedAt)
  const deliveryNo = numberAfter(eventNo, receivedAt)
  template.insertEvent.run(eventNo, formatId('evt', eventNo, random.next()), receivedAt)
  const deliveryId = formatId('dlv', deliveryNo, random.next())
  template.insertDelivery.run(deliveryNo, deliveryId, eventNo, deliveryNo, receivedAt, receivedAt)
  return deliveryNo
}

class RandomBytes {
  readonly #bytes = new Uint8Array(bytesPerId * 4096)
  #used = this.#bytes.length

  next(): Uint8Array {
    if (this.#used === this.#bytes.length) {
      randomFillSync(this.#bytes)
      this.#used = 0
    }
    this.#used += bytesPerId
    return this.#bytes.subarray(this.#used - bytesPerId, this.#used)
  }
}

/** Nothing here survives a crash, and nothing has to. */
function openFast(file: string): DatabaseSync {
  const db = new DatabaseSync(file)
  db.exec(`
    PRAGMA journal_mode = DELETE;
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA cache_size = -262144;
  `)
  return db
}

/** What is still in the system's memory would be written while we measure. */
function syncFile(file: string): void {
  const descriptor = openSync(file, 'r+')
  fsyncSync(descriptor)
  closeSync(descriptor)
}

function templatesIn(db: DatabaseSync): readonly Template[] {
  const pending = db.prepare(`SELECT no, event_no FROM deliveries WHERE status = 'pending' ORDER BY no`).all()
  if (pending.length === 0 || pending.length > 100) {
    throw new Error(`a fill needs 1 to 100 pending deliveries to copy, not ${pending.length}`)
  }
  return pending.map(({ no, event_no: eventNo }) => ({
    insertEvent: copyOf(db, 'events', Number(eventNo), eventVaries),
    insertDelivery: copyOf(db, 'deliveries', Number(no), deliveryVaries),
  }))
}

/** An INSERT of one row that is like another, but for the columns that are its parameters, in their order. */
function copyOf(db: DatabaseSync, table: string, no: number, varies: readonly string[]): StatementSync {
  const same = columnsOf(db, table).filter((column) => !varies.includes(column))
  const row = db.prepare(`SELECT ${same.map((column) => `quote(${column}) AS ${column}`)} FROM ${table} WHERE no = ?`)
  const literals = Object.values(row.get(no) ?? {})
  const parameters = varies.map(() => '?')
  return db.prepare(`INSERT INTO ${table} (${[...varies, ...same]}) VALUES (${[...parameters, ...literals]})`)
}

function columnsOf(db: DatabaseSync, table: string): readonly string[] {
  return db
    .prepare(`SELECT name FROM pragma_table_info('${table}')`)
    .all()
    .map(({ name }) => String(name))
}

/** What can be said of the rows of a backlog without naming one: two backlogs made in different ways must agree. */
export function describeRows(file: string): Readonly<Record<string, readonly string[]>> {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return {
      ...describeTable(db, 'events', eventVaries),
      ...describeTable(db, 'deliveries', deliveryVaries),
      broken: brokenRows(db),
    }
  } finally {
    db.close()
  }
}

function describeTable(db: DatabaseSync, table: string, varies: readonly string[]): Record<string, string[]> {
  const columns = columnsOf(db, table).map((column) => {
    const value = varies.includes(column) ? `typeof(${column})` : `typeof(${column}) || ' ' || quote(${column})`
    const rows = db.prepare(`SELECT ${value} AS value, count(*) AS count FROM ${table} GROUP BY 1 ORDER BY 1`).all()
    return [`${table}.${column}`, rows.map((row) => `${row.value} ×${row.count}`)] as const
  })
  return Object.fromEntries(columns)
}

/** The rules that hold between the columns that vary. */
function brokenRows(db: DatabaseSync): string[] {
  const wrong = db
    .prepare(
      `SELECT d.id FROM deliveries d LEFT JOIN events e ON e.no = d.event_no
       WHERE e.no IS NULL OR d.position <> d.no OR d.due_at <> d.received_at OR e.received_at <> d.received_at`,
    )
    .all()
    .map((row) => `${row.id} disagrees with itself or its event`)
  for (const [table, prefix] of [['events', 'evt'] as const, ['deliveries', 'dlv'] as const]) {
    for (const { no, id } of db.prepare(`SELECT no, id FROM ${table}`).iterate()) {
      if (numberOf(prefix, String(id)) !== no) wrong.push(`${id} is not the id of number ${no}`)
    }
  }
  return wrong
}

/** How many deliveries of an endpoint wait, and how many tries were made of all that it ever had. */
export function countRows(file: string, endpointId: string): Readonly<{ pending: number; tries: number }> {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    const pending = db.prepare(`
      SELECT count(*) AS count FROM deliveries
      WHERE status = 'pending' AND endpoint_no = (SELECT no FROM endpoints WHERE id = ?)`)
    const tries = db.prepare(`
      SELECT count(*) AS count FROM attempts a CROSS JOIN deliveries d ON d.no = a.delivery_no
      WHERE d.endpoint_no = (SELECT no FROM endpoints WHERE id = ?)`)
    return { pending: Number(pending.get(endpointId)?.count), tries: Number(tries.get(endpointId)?.count) }
  } finally {
    db.close()
  }
}
