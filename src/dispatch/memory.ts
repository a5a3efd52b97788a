import { largeBytesMin } from '../store/pipeline-store.ts'

/** What a claim weighs besides its body. */
export const overheadBytes = 1_024
/** One holder may have this part of the whole, so that one with large bodies leaves room for the others. */
const holderShare = 1 / 4
/** This part is for those that hold nothing. */
const spareShare = 1 / 4
/** What is set aside for one claim from the store. */
const claimShare = 1 / 32

/** Who holds events: an endpoint. Known by its identity alone. */
export type Holder = object

type Waiting = Readonly<{ bytes: number; turn: () => void }>

/**
 * Bounds the bytes of events that the dispatcher holds, whatever the backlog and however many endpoints there are. A
 * large body counts once, because the store gives out the same object to all who need it. Only what is larger than the
 * whole bound goes beyond it, when nothing else is held.
 *
 * While somebody waits for room, room goes to those who wait, in their order, and to nobody else.
 */
export class Memory {
  readonly #max: number
  #used = 0
  /** What each holder has, a large body counted for each that holds it. */
  readonly #held = new WeakMap<Holder, number>()
  /** Large bodies, and how many hold each. */
  readonly #large = new Map<Uint8Array, number>()
  /** Who waits for room, in the order of their turns. */
  readonly #waiting = new Map<Holder, Waiting>()
  /** Whose turn it is. */
  #admitted: Holder | null = null
  #passing = false

  constructor(max: number) {
    this.#max = max
  }

  get used(): number {
    return this.#used
  }

  /** Nothing more may be brought in past the others. */
  get isTight(): boolean {
    return this.#used > this.#max || this.#waiting.size > 0
  }

  /** Whether somebody who holds nothing could have so much at once. */
  hasRoom(bytes: number): boolean {
    return this.#waiting.size === 0 && (this.#used === 0 || this.#used + bytes <= this.#max)
  }

  /** What one claim sets aside. */
  get claimBytes(): number {
    return Math.floor(this.#max * claimShare)
  }

  /** Answers whether there was room. */
  occupy(holder: Holder, body: Uint8Array): boolean {
    const bytes = overheadBytes + (this.#large.has(body) ? 0 : body.length)
    if (this.#waiting.size > 0 || !this.#fits(holder, bytes)) return false
    this.force(holder, body)
    return true
  }

  /** For what is in hand already. */
  force(holder: Holder, body: Uint8Array): void {
    this.#held.set(holder, this.#heldBy(holder) + body.length + overheadBytes)
    this.#used += overheadBytes
    if (body.length < largeBytesMin) this.#used += body.length
    else {
      const holders = this.#large.get(body) ?? 0
      if (holders === 0) this.#used += body.length
      this.#large.set(body, holders + 1)
    }
  }

  free(holder: Holder, body: Uint8Array): void {
    this.#held.set(holder, this.#heldBy(holder) - body.length - overheadBytes)
    this.#used -= overheadBytes
    if (body.length < largeBytesMin) this.#used -= body.length
    else {
      const holders = (this.#large.get(body) ?? 1) - 1
      if (holders > 0) this.#large.set(body, holders)
      else {
        this.#large.delete(body)
        this.#used -= body.length
      }
    }
    if (this.#waiting.size > 0) this.#passOn()
  }

  /** Sets room aside for what is not there yet; answers whether there was any. */
  setAside(holder: Holder, bytes: number): boolean {
    if (this.#waiting.size > 0 && this.#admitted !== holder) return false
    if (!this.#fits(holder, bytes)) return false
    this.#used += bytes
    return true
  }

  /** For one whom those that hold the rest wait for: without room of its own, nobody would go on. */
  overdraw(bytes: number): void {
    this.#used += bytes
  }

  /** Gives up what was set aside: by now it is free, or held by what came. */
  returnRoom(bytes: number): void {
    this.#used -= bytes
    if (this.#waiting.size > 0) this.#passOn()
  }

  /** Calls `turn` once there is room for so much and all who have waited for longer had theirs. */
  whenRoom(waiter: Holder, bytes: number, turn: () => void): void {
    this.#waiting.set(waiter, { bytes, turn })
    this.#passOn()
  }

  #fits(holder: Holder, bytes: number): boolean {
    if (this.#used === 0) return true
    const held = this.#heldBy(holder)
    if (held === 0) return this.#used + bytes <= this.#max
    if (held + bytes > this.#max * holderShare) return false
    return this.#used + bytes <= this.#max * (1 - spareShare)
  }

  #heldBy(holder: Holder): number {
    return this.#held.get(holder) ?? 0
  }

  #passOn(): void {
    if (this.#passing) return
    this.#passing = true
    setImmediate(() => {
      this.#passing = false
      this.#pass()
    })
  }

  /** One that does not occupy the room in its turn leaves it to the next; who still wants some has joined again, last. */
  #pass(): void {
    for (let turns = this.#waiting.size; turns > 0; turns--) {
      const [first] = this.#waiting
      if (first === undefined) return
      const [waiter, { bytes, turn }] = first
      if (this.#used > 0 && this.#used + bytes > this.#max) return
      this.#waiting.delete(waiter)
      this.#admitted = waiter
      turn()
      this.#admitted = null
    }
  }
}
