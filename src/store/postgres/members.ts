import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Beat, Joined, Member, MemberLease, MemberNews } from '../cluster-store.ts'
import { posthornVersion } from '../version.ts'
import { texts } from './arrays.ts'
import { type Queryable, rowsOf } from './driver.ts'

export const memberLease: MemberLease = { leaseMs: 10_000, beatEveryMs: 2_000 }
const takenOverAtOnce = 1_000

export type MembersParts = Readonly<{
  /** For the lease alone: it must not wait behind what waits for a lock. */
  beats: Queryable
  on: Queryable
  schema: string
  lease: MemberLease
  /** Told of endpoints at which something became due because their member is gone. */
  onTakenOver: (endpointNumbers: readonly number[]) => void
}>

/** This process among those that share the database. */
export class Members {
  readonly #parts: MembersParts
  #no = 0
  /** The id that it has, and those that it may have got since: their answers got lost. */
  #ids: string[] = []
  /** The membership made at open, until somebody asks to join. */
  #fresh: Joined | null = null
  /** Fenced members whose work is to be taken over. */
  readonly #owing = new Set<number>()
  #isTakingOver = false

  constructor(parts: MembersParts) {
    this.#parts = parts
  }

  get no(): number {
    return this.#no
  }

  /** Whatever is written needs a member that has written it: there is one from the start. */
  async open(): Promise<void> {
    this.#fresh = await this.#enter()
    await this.#sweep()
  }

  /** All of it or nothing: as long as this fails, the process is the member that it was, and a beat says that it is lost. */
  async join(): Promise<Joined> {
    const fresh = this.#fresh
    this.#fresh = null
    if (fresh !== null) return fresh
    const before = this.#no
    const joined = await this.#enter()
    this.takeOverSoon([before])
    return joined
  }

  async beat({ handlers, isWorking }: MemberNews): Promise<Beat> {
    const { beats, schema, lease } = this.#parts
    const [row] = await rowsOf(
      beats,
      `SELECT b.*, v.version FROM ${schema}.beat_v1($1, $2, $3, $4) b, ${schema}.relay_links_version v`,
      [this.#no, lease.leaseMs, texts(handlers), isWorking],
    )
    const [now, isLost, members, working, leader, registryVersion, owing, handlersElsewhere, linksVersion] =
      row as unknown as [
        number,
        boolean,
        readonly string[] | null,
        readonly string[] | null,
        string | null,
        number,
        readonly number[] | null,
        readonly string[] | null,
        number,
      ]
    this.takeOverSoon(owing ?? [])
    return {
      now,
      members: members ?? [],
      working: working ?? [],
      leader: leader ?? '',
      registryVersion,
      linksVersion,
      isLost,
      handlersElsewhere: handlersElsewhere ?? [],
    }
  }

  async leave(): Promise<void> {
    const { on, schema } = this.#parts
    await rowsOf(on, `SELECT ${schema}.leave_v1($1)`, [this.#no])
  }

  async list(): Promise<readonly Member[]> {
    const { on, schema } = this.#parts
    const rows = await rowsOf(
      on,
      `SELECT m.id, m.host, m.pid, m.version, m.joined_at, m.no = l.member, ${schema}.store_time_v1() - m.beat_at, m.handlers
       FROM ${schema}.members m CROSS JOIN ${schema}.leader l WHERE NOT m.fenced ORDER BY m.no`,
      [],
    )
    return rows.map(([id, host, pid, version, since, isLeader, beatMs, handlers]) => ({
      id: id as string,
      host: host as string,
      pid: pid as number,
      version: version as string,
      since: since as number,
      isLeader: isLeader as boolean,
      beatMs: Math.max(0, beatMs as number),
      handlers: handlers as readonly string[],
    }))
  }

  async #enter(): Promise<Joined> {
    const { beats, schema, lease } = this.#parts
    const id = `mbr_${randomBytes(10).toString('hex')}`
    const values = [id, hostname(), process.pid, posthornVersion, lease.leaseMs, texts(this.#ids)]
    this.#ids.push(id)
    const [row] = await rowsOf(beats, `SELECT * FROM ${schema}.join_v1($1, $2, $3, $4, $5, $6)`, values)
    const [no, now] = row as unknown as [number, number]
    this.#no = no
    this.#ids = [id]
    return { id, now, lease }
  }

  /** Whether this process is that member. If it is not, what was claimed for that one since goes to others. */
  isStill(no: number): boolean {
    if (no === this.#no) return true
    this.takeOverSoon([no])
    return false
  }

  async #sweep(): Promise<void> {
    const { on, schema } = this.#parts
    const rows = await rowsOf(on, `SELECT no FROM ${schema}.members WHERE fenced AND NOT swept`, [])
    if (rows.length > 0) await this.#takeOver(rows.map(([no]) => no as number))
  }

  /** Of fenced members. Nobody waits for it: what is left is taken over after a later beat. */
  takeOverSoon(members: readonly number[]): void {
    for (const no of members) this.#owing.add(no)
    if (this.#isTakingOver || this.#owing.size === 0) return
    this.#isTakingOver = true
    this.#takeOverAll()
      .catch(() => {})
      .finally(() => {
        this.#isTakingOver = false
      })
  }

  async #takeOverAll(): Promise<void> {
    while (this.#owing.size > 0) {
      const members = [...this.#owing]
      this.#owing.clear()
      await this.#takeOver(members).catch((error) => {
        for (const no of members) this.#owing.add(no)
        throw error
      })
    }
  }

  /** In pieces: nobody's claim waits for long. */
  async #takeOver(members: readonly number[]): Promise<void> {
    const { on, schema, onTakenOver } = this.#parts
    for (;;) {
      const rows = await rowsOf(on, `SELECT ${schema}.take_over_v1($1, $2)`, [members, takenOverAtOnce])
      const endpoints = (rows[0]?.[0] ?? null) as readonly number[] | null
      if (endpoints === null) return
      onTakenOver(endpoints)
    }
  }
}
