import type { Endpoint } from '../../src/core/endpoint.ts'
import { classify } from '../../src/core/failure-classifier.ts'
import type { Report } from '../../src/core/outcome.ts'
import { linkLost, noAck } from '../../src/core/relay.ts'
import { timings } from '../../src/transports/relay/timings.ts'
import type { AheadTransport, Answer, Parcel } from '../../src/transports/transport.ts'
import { interrupted, type Script, unreachable } from './scripted-wire.ts'

/** One delivery on the link, as the edge and the hub see it. */
type Frame = {
  readonly parcel: Parcel
  behind: string | null
  /** For the edge. `void`: recalled, and not heard of since. `lost`: its link is gone, and only the hub knows of it. */
  role: 'turn' | 'ahead' | 'void' | 'lost'
  /** For the hub. `returned`: it has let go of it untried, which the edge may not have heard yet. */
  state: 'waiting' | 'running' | 'answered' | 'returned'
  /** What the edge has heard, until it is asked for. */
  report: Report | null
  /** Ends the try that waits for it. */
  end: ((report: Report) => void) | null
}

/** A delivery that the hub has handed to its target. */
export type Run = Readonly<{ parcel: Parcel; answer(report: Report): void }>

export type HubMemory = Map<string, Report>

/**
 * A transport that sends ahead, with the hub at its other end: one of a lane at a time, nothing behind what did not end,
 * and what it has ended before is answered from memory.
 */
export class AheadWire implements AheadTransport {
  readonly kind = 'relay'
  readonly runs: Parcel[] = []
  readonly open = new Set<Run>()
  /** What was handed over by `sendAhead`, each time. */
  readonly batches: (readonly string[])[] = []
  /** Told of every hand-over. */
  onSend: () => void = () => {}
  script: Script
  room = { count: 64, bytes: 1024 * 1024 }
  /** However many it is given at once. */
  takesMax = Number.POSITIVE_INFINITY
  readonly absent = new Set<string>()
  readonly memory: HubMemory
  readonly #frames = new Map<string, Frame[]>()
  /** What the hub has ended. */
  readonly #ended = new Set<string>()
  /** What the edge has heard of last, by endpoint. */
  readonly #lastAcked = new Map<string, string>()
  readonly #underway = new Set<Frame>()
  /** Who asked since it was told. Nobody else is told. */
  readonly #askers = new Set<string>()
  readonly #curious = new Set<string>()
  readonly #serving: ((endpointId: string) => void)[] = []
  readonly #room: ((endpointId: string) => void)[] = []
  #acksHeld: (() => void)[] | null = null
  #closed: PromiseWithResolvers<void> | null = null

  constructor(script: Script, memory: HubMemory = new Map()) {
    this.script = script
    this.memory = memory
    for (const key of memory.keys()) this.#ended.add(key.split(' ')[0] ?? '')
  }

  serves({ id }: Endpoint): boolean {
    this.#askers.add(id)
    return this.#isThere(id)
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#serving.push(listener)
  }

  onRoom(listener: (endpointId: string) => void): void {
    this.#room.push(listener)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    if (signal.aborted || !this.#isThere(parcel.endpoint.id)) return Promise.resolve(interrupted)
    const known = this.#of(parcel.endpoint).find((one) => one.role !== 'lost' && keyOf(one.parcel) === keyOf(parcel))
    if (known !== undefined && known.end !== null) return Promise.resolve(interrupted)
    const frame = known ?? this.#write(parcel, null, 'turn')
    if (frame.report !== null) {
      this.#remove(frame)
      return Promise.resolve(frame.report)
    }
    if (frame.role === 'ahead') frame.role = 'turn'
    const report = this.#await(frame, signal)
    this.#pump(parcel)
    return report
  }

  roomAhead(endpoint: Endpoint): Readonly<{ count: number; bytes: number }> {
    this.#curious.add(endpoint.id)
    const frames = this.#of(endpoint)
    if (!this.#isThere(endpoint.id) || frames.some(({ role }) => role === 'void')) return { count: 0, bytes: 0 }
    const ahead = frames.filter(({ role }) => role === 'ahead')
    const bytes = ahead.reduce((sum, { parcel }) => sum + parcel.event.body.length, 0)
    return { count: Math.max(0, this.room.count - ahead.length), bytes: Math.max(0, this.room.bytes - bytes) }
  }

  sendAhead(parcels: readonly Parcel[], behind: string): number {
    const sent: string[] = []
    let before = behind
    for (const parcel of parcels.slice(0, this.takesMax)) {
      const { count, bytes } = this.roomAhead(parcel.endpoint)
      if (count < 1 || bytes < parcel.event.body.length) break
      if (!this.#knows(parcel.endpoint, before) || this.#find(parcel.endpoint, parcel.deliveryId) !== undefined) break
      this.#write(parcel, before, 'ahead')
      before = parcel.deliveryId
      sent.push(before)
    }
    this.batches.push(sent)
    this.onSend()
    for (const parcel of parcels.slice(0, 1)) this.#pump(parcel)
    return sent.length
  }

  answersBehind(endpoint: Endpoint, deliveryId: string): readonly Answer[] {
    const answers: Answer[] = []
    let before = deliveryId
    for (;;) {
      const next = this.#of(endpoint).find((frame) => frame.role === 'ahead' && frame.behind === before)
      if (next?.report == null) return answers
      before = next.parcel.deliveryId
      answers.push({ deliveryId: before, report: next.report, tookMs: 3 })
      this.#remove(next)
    }
  }

  recall(endpoint: Endpoint): void {
    for (const frame of [...this.#of(endpoint)]) {
      if (frame.role !== 'ahead') continue
      frame.role = 'void'
      if (frame.report !== null) this.#remove(frame)
      else if (frame.state === 'waiting') frame.state = 'returned'
    }
    const returned = this.#of(endpoint).filter(({ state }) => state === 'returned')
    // As over a link, the hub's word comes later.
    queueMicrotask(() => this.#say(() => this.#hearReturned(returned)))
  }

  close(): Promise<void> {
    this.#closed ??= Promise.withResolvers<void>()
    if (this.#underway.size === 0) this.#closed.resolve()
    return this.#closed.promise
  }

  // ── What the test plays ─────────────────────────────────────────────────────────────────────────────────────────

  /** The link is lost. The hub goes on with what runs, and forgets the rest. */
  lose(endpoint: Endpoint): void {
    this.absent.add(endpoint.id)
    this.#lastAcked.delete(endpoint.id)
    this.#curious.delete(endpoint.id)
    for (const frame of [...this.#of(endpoint)]) {
      frame.role = 'lost'
      if (frame.state !== 'running') this.#remove(frame)
      frame.end?.({ kind: 'unreachable', code: linkLost, message: 'the link was lost' })
    }
    this.#tellServing(endpoint.id)
  }

  come(endpoint: Endpoint): void {
    this.absent.delete(endpoint.id)
    this.#tellServing(endpoint.id)
  }

  /** From now on the hub's answers stay on the way, until the answer is called. */
  holdAcks(): () => void {
    this.#acksHeld = []
    return () => {
      const held = this.#acksHeld ?? []
      this.#acksHeld = null
      for (const ack of held) ack()
    }
  }

  /** How many were sent ahead and are not answered for. */
  aheadOf(endpoint: Endpoint): number {
    return this.#of(endpoint).filter((frame) => frame.role === 'ahead').length
  }

  // ── The edge ────────────────────────────────────────────────────────────────────────────────────────────────────

  #isThere(endpointId: string): boolean {
    return this.#closed === null && !this.absent.has(endpointId)
  }

  /** Whether something may be sent behind this delivery. */
  #knows(endpoint: Endpoint, deliveryId: string): boolean {
    const frame = this.#find(endpoint, deliveryId)
    return frame === undefined ? this.#lastAcked.get(endpoint.id) === deliveryId : frame.role !== 'void'
  }

  #find(endpoint: Endpoint, deliveryId: string): Frame | undefined {
    return this.#of(endpoint).find((one) => one.role !== 'lost' && one.parcel.deliveryId === deliveryId)
  }

  #await(frame: Frame, signal: AbortSignal): Promise<Report> {
    const { promise, resolve } = Promise.withResolvers<Report>()
    const onAbort = (): void => frame.end?.(interrupted)
    const { timeoutMs } = frame.parcel.endpoint
    const deadline = setTimeout(() => frame.end?.(unreachable(noAck)), timeoutMs + timings.ackGraceMs)
    signal.addEventListener('abort', onAbort)
    this.#underway.add(frame)
    frame.end = (report) => {
      frame.end = null
      clearTimeout(deadline)
      signal.removeEventListener('abort', onAbort)
      this.#underway.delete(frame)
      resolve(report)
      if (this.#underway.size === 0) this.#closed?.resolve()
    }
    return promise
  }

  #hearAck(frame: Frame, report: Report): void {
    const { endpoint, deliveryId } = frame.parcel
    if (frame.role === 'lost') return
    this.#lastAcked.set(endpoint.id, deliveryId)
    if (frame.role === 'ahead') frame.report = report
    else this.#remove(frame)
    frame.end?.(report)
    this.#tellRoom()
  }

  /** What has its turn by now is sent as the head that it is. */
  #hearReturned(frames: readonly Frame[]): void {
    for (const frame of frames) {
      if (frame.role === 'lost') continue
      this.#remove(frame)
      if (frame.end === null) continue
      frame.role = 'turn'
      this.#arrive(frame, null)
      this.#pump(frame.parcel)
    }
    this.#tellRoom()
  }

  #tellServing(endpointId: string): void {
    if (!this.#askers.delete(endpointId)) return
    for (const listener of this.#serving) listener(endpointId)
  }

  #tellRoom(): void {
    setImmediate(() => {
      const curious = [...this.#curious]
      this.#curious.clear()
      for (const id of curious) for (const listener of this.#room) listener(id)
    })
  }

  // ── The hub ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** What still runs there for a lost link is the same one. */
  #write(parcel: Parcel, behind: string | null, role: 'turn' | 'ahead'): Frame {
    const running = this.#of(parcel.endpoint).find((one) => keyOf(one.parcel) === keyOf(parcel))
    if (running !== undefined) {
      running.role = role
      running.behind = behind
      return running
    }
    const frame: Frame = { parcel, behind, role, state: 'waiting', report: null, end: null }
    this.#arrive(frame, behind)
    return frame
  }

  #arrive(frame: Frame, behind: string | null): void {
    frame.behind = behind
    frame.state = 'waiting'
    // Behind nothing a lane begins anew: what still waits in it comes again.
    if (behind === null && frame.parcel.lane !== null) this.#giveBack(this.#laneOf(frame.parcel))
    this.#of(frame.parcel.endpoint).push(frame)
  }

  /** Starts what may begin. */
  #pump(parcel: Parcel): void {
    const lane = this.#laneOf(parcel)
    const waiting = lane.filter(({ state }) => state === 'waiting')
    if (parcel.lane === null) {
      for (const one of waiting) this.#run(one)
      return
    }
    const [next] = waiting
    if (next === undefined || lane.some(({ state }) => state === 'running')) return
    if (next.behind === null || this.#ended.has(next.behind)) this.#run(next)
    else this.#giveBack(lane)
  }

  #run(frame: Frame): void {
    frame.state = 'running'
    const remembered = this.memory.get(keyOf(frame.parcel))
    if (remembered !== undefined) {
      this.#finish(frame, remembered)
      return
    }
    this.runs.push(frame.parcel)
    const run = {
      parcel: frame.parcel,
      answer: (report: Report) => {
        if (this.open.delete(run)) this.#finish(frame, report)
      },
    }
    this.open.add(run)
    const answer = this.script(frame.parcel, this.runs.length)
    if (answer === 'hold') return
    if (answer instanceof Promise) answer.then(run.answer)
    else run.answer(answer)
  }

  #finish(frame: Frame, report: Report): void {
    const { parcel } = frame
    frame.state = 'answered'
    const { kind } = classify(report, parcel.endpoint.classify, 0)
    const hasEnded = kind === 'delivered' || kind === 'permanent'
    if (hasEnded) {
      this.memory.set(keyOf(parcel), report)
      this.#ended.add(parcel.deliveryId)
    }
    if (frame.role === 'lost') this.#remove(frame)
    this.#say(() => this.#hearAck(frame, report))
    if (!hasEnded) this.#giveBack(this.#laneOf(parcel).filter(({ behind }) => behind !== null))
    this.#pump(parcel)
  }

  /** Those of them that have not begun. */
  #giveBack(frames: readonly Frame[]): void {
    const returned = frames.filter(({ state }) => state === 'waiting')
    for (const frame of returned) frame.state = 'returned'
    if (returned.length > 0) this.#say(() => this.#hearReturned(returned))
  }

  #say(word: () => void): void {
    if (this.#acksHeld === null) word()
    else this.#acksHeld.push(word)
  }

  #remove(frame: Frame): void {
    const frames = this.#of(frame.parcel.endpoint)
    const at = frames.indexOf(frame)
    if (at >= 0) frames.splice(at, 1)
  }

  /** Those of the same lane as this one. What is in no lane is beside everything. */
  #laneOf({ endpoint, lane }: Parcel): readonly Frame[] {
    return this.#of(endpoint).filter((frame) => frame.parcel.lane === lane)
  }

  #of({ id }: Endpoint): Frame[] {
    const frames = this.#frames.get(id) ?? []
    this.#frames.set(id, frames)
    return frames
  }
}

function keyOf({ deliveryId, bornAt }: Parcel): string {
  return `${deliveryId} ${bornAt}`
}
