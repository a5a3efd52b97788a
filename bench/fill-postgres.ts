import { setImmediate as turn } from 'node:timers/promises'
import type { Client } from 'pg'

/**
 * Makes a large backlog on Postgres fast: the twin of fill.ts. Every delivery of the table is a template, with its event:
 * they are copied, turn by turn, with keys and times of their own, as if one event had come in every millisecond before
 * them. All else is taken from the template, so that the rows are those that the store writes, whatever their columns are.
 */

const rowsPerStatement = 100_000
const schema = 'posthorn'
const epochMs = Date.UTC(2024, 0, 1)

/** What every copy has of its own, by table. */
const varies: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  events: { id: 'c.event_id', received_at: 'c.at' },
  live: { id: 'c.id', event_id: 'c.event_id', received_at: 'c.at', due_at: 'c.at' },
  ended: { id: 'c.id', event_id: 'c.event_id', received_at: 'c.at', settled_at: 'c.at' },
  attempts: { delivery: 'c.id', started_at: 'c.at' },
}

/** `live`: deliveries that wait; `ended`: delivered ones, with their attempts. */
export async function multiplyRows(client: Client, table: 'live' | 'ended', count: number): Promise<void> {
  if (count <= 0) return
  await client.query('SET synchronous_commit = off')
  const { rows } = await client.query(
    `SELECT min(received_at)::float8 AS at, count(*)::int AS n FROM ${schema}.${table}`,
  )
  const [{ at: oldest, n: templates }] = rows as [{ at: number; n: number }]
  if (templates === 0 || templates > 100) throw new Error(`a fill needs 1 to 100 rows of ${table}, not ${templates}`)
  await client.query(`
    CREATE TEMP TABLE templates AS
      SELECT row_number() OVER (ORDER BY id) - 1 AS n, id, event_id FROM ${schema}.${table};
    CREATE TEMP TABLE copies (id uuid, event_id uuid, at bigint, template uuid, template_event uuid)`)
  const tables = table === 'live' ? (['events', 'live'] as const) : (['events', 'ended', 'attempts'] as const)
  const copying: string[] = []
  for (const name of tables) copying.push(await copySql(client, name))
  for (let from = 0; from < count; from += rowsPerStatement) {
    await client.query(`TRUNCATE copies`)
    await client.query(
      `INSERT INTO copies SELECT ${keyOf('a.at', 1)}, ${keyOf('a.at', 0)}, a.at, t.id, t.event_id
       FROM (SELECT i, $1::bigint + i AS at FROM generate_series($2::int, $3::int) i) a
       JOIN templates t ON t.n = a.i % $4`,
      [oldest - count, from, Math.min(count, from + rowsPerStatement) - 1, templates],
    )
    for (const sql of copying) await client.query(sql)
    // Signals are heard between two statements.
    await turn()
  }
  await client.query('DROP TABLE templates, copies')
}

/** The key of the id that the store would have made in this millisecond: its number, and 60 random bits. */
function keyOf(at: string, place: number): string {
  const number = `((${at} - ${epochMs}) * 4096 + ${place})`
  const high = `to_hex((${number} << 9) | (random() * 511)::bigint)`
  const low = `to_hex(floor(random() * 2251799813685248)::bigint << 13)`
  return `(lpad(${high}, 16, '0') || lpad(${low}, 16, '0'))::uuid`
}

async function copySql(client: Client, table: string): Promise<string> {
  const { rows } = await client.query(
    `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = '${schema}' AND table_name = $1`,
    [table],
  )
  const columns = (rows as { name: string }[]).map(({ name }) => name)
  const values = columns.map((column) => varies[table]?.[column] ?? `t.${column}`)
  const key =
    table === 'events' ? 't.id = c.template_event' : `t.${table === 'attempts' ? 'delivery' : 'id'} = c.template`
  return `INSERT INTO ${schema}.${table} (${columns.join(', ')})
    SELECT ${values.join(', ')} FROM copies c JOIN ${schema}.${table} t ON ${key} ORDER BY c.at`
}
