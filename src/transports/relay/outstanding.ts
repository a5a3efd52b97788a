import type { Answer } from '../transport.ts'
import type { Credit } from './protocol.ts'
import type { RelayTry } from './relay-try.ts'

/** A delivery that was written to the link. */
export type Frame = {
  readonly deliveryId: string
  readonly bornAt: number
  readonly endpointId: string
  readonly bytes: number
  /** `ahead`: before its turn. `void`: that was taken back, and the hub has not said yet what it did with it. */
  standing: 'turn' | 'ahead' | 'void'
  /** The delivery that it was sent behind; null: it was its turn. */
  readonly behind: string | null
  /** For what was sent ahead and answered: what came, until it is asked for. The hub has it no longer. */
  answer: Answer | null
  /** Who waits for the answer. */
  attempt: RelayTry | null
}

/** What is ahead of its turn for one endpoint. */
type Lane = { frames: number; bytes: number; voids: number; lastAcked: string | null }

/** Whatever a hub says that it takes. */
const framesMax = 4_096
const bytesMax = 64 * 1024 * 1024
/** What is sent ahead leaves this share of the credit to those whose turn it is. */
const turnShare = 1 / 8
/** Nobody is told of room before there is this share of it: many small steps cost more than few large ones. */
const roomShare = 1 / 4

/** What one hub has and has not answered, counted against its credit. */
export class Outstanding {
  readonly #credit: Credit
  readonly #ahead: Credit
  readonly #frames = new Map<string, Frame>()
  /** What was sent ahead, by the delivery before it. */
  readonly #followers = new Map<string, Frame>()
  readonly #lanes = new Map<string, Lane>()
  #lanesAhead = 0
  #count = 0
  #bytes = 0

  constructor(credit: Credit) {
    const frames = Math.min(credit.frames, framesMax)
    const bytes = Math.min(credit.bytes, bytesMax)
    this.#credit = { frames, bytes }
    this.#ahead = { frames: frames - Math.ceil(frames * turnShare), bytes: bytes - Math.ceil(bytes * turnShare) }
  }

  /** Deliveries that the hub has not answered. */
  get count(): number {
    return this.#count
  }

  /** The largest body for which there could ever be credit. */
  get bodyBytesMax(): number {
    return this.#credit.bytes
  }

  find(deliveryId: string): Frame | null {
    return this.#frames.get(deliveryId) ?? null
  }

  fits(bytes: number): boolean {
    return this.#count < this.#credit.frames && this.#bytes + bytes <= this.#credit.bytes
  }

  /** Those that send ahead share what there is. While something is being taken back, its lane gets no more. */
  room(endpointId: string): Credit {
    const lane = this.#lanes.get(endpointId)
    if (lane !== undefined && lane.voids > 0) return { frames: 0, bytes: 0 }
    const isSharer = lane !== undefined && lane.frames > 0
    const sharers = this.#lanesAhead + (isSharer ? 0 : 1)
    const share = (whole: number, own: number, used: number) =>
      Math.max(0, Math.min(Math.floor(whole / sharers) - own, whole - used))
    return {
      frames: share(this.#ahead.frames, lane?.frames ?? 0, this.#count),
      bytes: share(this.#ahead.bytes, lane?.bytes ?? 0, this.#bytes),
    }
  }

  /** Whether it is worth telling those who could send ahead. */
  get isRoomy(): boolean {
    const { frames, bytes } = this.#ahead
    return frames - this.#count >= frames * roomShare && bytes - this.#bytes >= bytes * roomShare
  }

  /** Whether something may be sent behind this delivery: the hub has it, or has just ended it. */
  knows(endpointId: string, deliveryId: string): boolean {
    const frame = this.#frames.get(deliveryId)
    if (frame !== undefined) return frame.standing !== 'void' && frame.endpointId === endpointId
    return this.#lanes.get(endpointId)?.lastAcked === deliveryId
  }

  add(frame: Frame): void {
    this.#frames.set(frame.deliveryId, frame)
    this.#count += 1
    this.#bytes += frame.bytes
    if (frame.standing !== 'ahead' || frame.behind === null) return
    this.#followers.set(frame.behind, frame)
    const lane = this.#laneOf(frame.endpointId)
    if (lane.frames === 0) this.#lanesAhead += 1
    lane.frames += 1
    lane.bytes += frame.bytes
  }

  /** The frame that this answers; null: it was answered before, given up or never sent. */
  acked(deliveryId: string, bornAt: number): Frame | null {
    const frame = this.#frames.get(deliveryId)
    if (frame === undefined || frame.bornAt !== bornAt || frame.answer !== null) return null
    this.#laneOf(frame.endpointId).lastAcked = deliveryId
    this.#release(frame)
    if (frame.standing !== 'ahead') this.#forget(frame)
    return frame
  }

  /** The frame that the hub did not try; null: it has no such frame. */
  returned(deliveryId: string): Frame | null {
    const frame = this.#frames.get(deliveryId)
    if (frame === undefined || frame.answer !== null) return null
    this.#release(frame)
    this.#forget(frame)
    return frame
  }

  /** Its turn has come. An answer that is there is given, and it is gone. */
  turn(frame: Frame): Answer | null {
    if (frame.standing === 'ahead') {
      this.#unlink(frame)
      frame.standing = 'turn'
    }
    if (frame.answer !== null) this.#frames.delete(frame.deliveryId)
    return frame.answer
  }

  /** The answers right behind this delivery. Given once. */
  answersBehind(deliveryId: string): readonly Answer[] {
    const answers: Answer[] = []
    let frame = this.#followers.get(deliveryId)
    while (frame !== undefined && frame.answer !== null) {
      answers.push(frame.answer)
      this.#forget(frame)
      frame = this.#followers.get(frame.deliveryId)
    }
    return answers
  }

  /** Nothing of this endpoint is ahead any more. Answers whether the hub still has some of it. */
  takeBack(endpointId: string): boolean {
    const lane = this.#lanes.get(endpointId)
    if (lane === undefined || lane.frames === 0) return false
    for (const frame of this.#frames.values()) {
      if (frame.endpointId !== endpointId || frame.standing !== 'ahead') continue
      if (frame.answer !== null) {
        this.#forget(frame)
        continue
      }
      this.#unlink(frame)
      frame.standing = 'void'
      lane.voids += 1
    }
    return lane.voids > 0
  }

  /** Everything that somebody waits for. */
  attempts(): RelayTry[] {
    return [...this.#frames.values()].flatMap(({ attempt }) => (attempt === null ? [] : [attempt]))
  }

  #release(frame: Frame): void {
    this.#count -= 1
    this.#bytes -= frame.bytes
  }

  #forget(frame: Frame): void {
    this.#frames.delete(frame.deliveryId)
    if (frame.standing === 'ahead') this.#unlink(frame)
    if (frame.standing === 'void') this.#laneOf(frame.endpointId).voids -= 1
  }

  #unlink(frame: Frame): void {
    if (frame.behind !== null && this.#followers.get(frame.behind) === frame) this.#followers.delete(frame.behind)
    const lane = this.#laneOf(frame.endpointId)
    lane.frames -= 1
    lane.bytes -= frame.bytes
    if (lane.frames === 0) this.#lanesAhead -= 1
  }

  #laneOf(endpointId: string): Lane {
    const known = this.#lanes.get(endpointId)
    if (known !== undefined) return known
    const lane = { frames: 0, bytes: 0, voids: 0, lastAcked: null }
    this.#lanes.set(endpointId, lane)
    return lane
  }
}
