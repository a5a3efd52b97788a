import type { Client, Pool } from 'pg'
import type { SecretBox } from '../secret-box.ts'
import type { StoreHealth, WrittenBatch } from '../store.ts'
import { type ConnectionSettings, endPool, openPool, openPrimary } from './driver.ts'
import { Hints, type HintsParts } from './hints.ts'
import { WriteStream } from './write-stream.ts'

/**
 * The write streams of a process. What goes through ordered lanes has one, so that the order of calls is the order of
 * commits; a hot lane never holds up the others.
 */
const streamNames = ['lanes', 'arrivals', 'outcomes', 'rest'] as const
type StreamName = (typeof streamNames)[number]

const claimsMax = 4
const readsMax = 4
const longReadsMax = 2
/** Longer than any beat takes, and short enough that a member can try again within its lease. */
const beatMsMax = 4_000
/** Who waits for an answer for so long waits for a connection that is gone. */
const callMsMax = 30_000
const longReadMsMax = 300_000

export type ConnectionsParts = Readonly<{
  settings: ConnectionSettings
  /** Quoted. */
  schema: string
  box: SecretBox
  onBatch?: ((batch: WrittenBatch) => void) | undefined
}>

/** Everything that this process has open to its database. */
export class Connections {
  readonly schema: string
  readonly box: SecretBox
  /** One connection that nothing else uses. */
  readonly beats: Pool
  readonly claims: Pool
  readonly reads: Pool
  /** For what may look at everything: a page or a single read never waits behind it. */
  readonly longReads: Pool
  readonly streams: Readonly<Record<StreamName, WriteStream>>
  readonly #connect: () => Promise<Client>
  #member = () => 0

  static async open(parts: ConnectionsParts): Promise<Connections> {
    const settings = { callMsMax, ...parts.settings }
    const beatSettings = { ...settings, callMsMax: Math.min(beatMsMax, settings.callMsMax) }
    const longSettings = { ...settings, callMsMax: Math.max(longReadMsMax, settings.callMsMax) }
    return new Connections(
      { ...parts, settings },
      {
        beats: await openPool(beatSettings, 1),
        claims: await openPool(settings, claimsMax),
        reads: await openPool(settings, readsMax),
        longReads: await openPool(longSettings, longReadsMax),
      },
    )
  }

  private constructor(
    { settings, schema, box, onBatch }: ConnectionsParts,
    pools: Readonly<Record<'beats' | 'claims' | 'reads' | 'longReads', Pool>>,
  ) {
    this.schema = schema
    this.box = box
    this.beats = pools.beats
    this.claims = pools.claims
    this.reads = pools.reads
    this.longReads = pools.longReads
    this.#connect = () => openPrimary(settings)
    const stream = () => new WriteStream({ connect: this.#connect, schema, member: () => this.#member(), onBatch })
    this.streams = { lanes: stream(), arrivals: stream(), outcomes: stream(), rest: stream() }
  }

  hints(listener: Pick<HintsParts, 'onHint' | 'onText'>): Hints {
    return new Hints({ connect: this.#connect, schema: this.schema, ...listener })
  }

  /** `member`: the number of the member that writes. */
  async openStreams(member: () => number): Promise<void> {
    this.#member = member
    await Promise.all(streamNames.map((name) => this.streams[name].open()))
  }

  /** That of the first stream that cannot write. */
  get health(): StoreHealth {
    const all = streamNames.map((name) => this.streams[name].health)
    return all.find(({ writable }) => !writable) ?? { writable: true, problem: null }
  }

  /** Writes what was asked for before it closes. Reads that wait are not waited for. */
  async close(): Promise<void> {
    const reads = [this.reads, this.longReads].map(endPool)
    await Promise.all(streamNames.map((name) => this.streams[name].close()))
    await Promise.all([...reads, endPool(this.beats), endPool(this.claims)])
  }
}
