import type { Endpoint } from '../../src/core/endpoint.ts'
import { classify } from '../../src/core/failure-classifier.ts'
import type { Report } from '../../src/core/outcome.ts'
import { linkLost } from '../../src/core/relay.ts'
import type { AheadTransport, Answer, Parcel } from '../../src/transports/transport.ts'
import type { Script } from './scripted-wire.ts'

/** One delivery on the link: with the hub, or answered and not asked for yet. */
type Frame = {
  readonly parcel: Parcel
  readonly behind: string | null
  /** Whether the edge counts on it: null after a recall or a lost link, when only the hub still knows of it. */
  role: 'ahead' | 'head' | null
  state: 'waiting' | 'running' | 'answered'
  report: Report | null
  resolve: ((report: Report) => void) | null
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
  recalls = 0
  script: Script
  room = { count: 64, bytes: 1024 * 1024 }
  /** However many it is given at once. */
  takesMax = Number.POSITIVE_INFINITY
  readonly absent = new Set<string>()
  readonly memory: HubMemory
  readonly #frames = new Map<string, Frame[]>()
  readonly #ended = new Set<string>()
  readonly #serving: ((endpointId: string) => void)[] = []
  readonly #room: ((endpointId: string) => void)[] = []
  #acksHeld: (() => void)[] | null = null

  constructor(script: Script, memory: HubMemory = new Map()) {
    this.script = script
    this.memory = memory
    for (const key of memory.keys()) this.#ended.add(key.split(' ')[0] ?? '')
  }

  serves({ id }: Endpoint): boolean {
    return !this.absent.has(id)
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#serving.push(listener)
  }

  onRoom(listener: (endpointId: string) => void): void {
    this.#room.push(listener)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    const { promise, resolve } = Promise.withResolvers<Report>()
    const frame =
      this.#of(parcel.endpoint).find((one) => keyOf(one.parcel) === keyOf(parcel)) ?? this.#add(parcel, null)
    frame.role = 'head'
    frame.resolve = resolve
    signal.addEventListener('abort', () => this.#leave(frame, { kind: 'interrupted', message: 'interrupted' }))
    if (frame.state === 'answered') this.#tell(frame)
    else this.#pump(parcel.endpoint)
    return promise
  }

  roomAhead(endpoint: Endpoint): Readonly<{ count: number; bytes: number }> {
    const ahead = this.#of(endpoint).filter((frame) => frame.role === 'ahead')
    const bytes = ahead.reduce((sum, { parcel }) => sum + parcel.event.body.length, 0)
    return { count: this.room.count - ahead.length, bytes: this.room.bytes - bytes }
  }

  sendAhead(parcels: readonly Parcel[], behind: string): number {
    const taken = parcels.slice(0, this.takesMax)
    this.batches.push(taken.map(({ deliveryId }) => deliveryId))
    this.onSend()
    let before = behind
    for (const parcel of taken) {
      this.#add(parcel, before).role = 'ahead'
      before = parcel.deliveryId
    }
    for (const { endpoint } of taken.slice(0, 1)) this.#pump(endpoint)
    return taken.length
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
    this.recalls += 1
    this.#forget(endpoint, (frame) => frame.role === 'ahead')
  }

  async close(): Promise<void> {}

  // ── What the test plays ─────────────────────────────────────────────────────────────────────────────────────────

  /** The link is lost: what is under way at the hub goes on there. */
  lose(endpoint: Endpoint): void {
    this.absent.add(endpoint.id)
    const waiting = this.#of(endpoint).map(({ resolve }) => resolve)
    this.#forget(endpoint, () => true)
    for (const resolve of waiting) resolve?.({ kind: 'unreachable', code: linkLost, message: 'the link was lost' })
    for (const listener of this.#serving) listener(endpoint.id)
  }

  come(endpoint: Endpoint): void {
    this.absent.delete(endpoint.id)
    for (const listener of this.#serving) listener(endpoint.id)
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

  #add(parcel: Parcel, behind: string | null): Frame {
    const frame: Frame = { parcel, behind, role: 'head', state: 'waiting', report: null, resolve: null }
    this.#of(parcel.endpoint).push(frame)
    return frame
  }

  /** Starts what may begin. */
  #pump(endpoint: Endpoint): void {
    const frames = this.#of(endpoint)
    const waiting = frames.filter((one) => one.state === 'waiting')
    if (endpoint.ordering === 'none') {
      for (const one of waiting) this.#run(one)
      return
    }
    const [frame] = waiting
    if (frame === undefined || frames.some((one) => one.state === 'running')) return
    if (frame.behind !== null && !this.#ended.has(frame.behind) && frame.role === 'ahead') {
      // Nobody before it is here: it is returned untried, or waits.
      if (!frames.some((one) => one.parcel.deliveryId === frame.behind)) this.#remove(frame)
      return
    }
    this.#run(frame)
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
        this.open.delete(run)
        this.#finish(frame, report)
      },
    }
    this.open.add(run)
    const answer = this.script(frame.parcel, this.runs.length)
    if (answer === 'hold') return
    if (answer instanceof Promise) answer.then(run.answer)
    else run.answer(answer)
  }

  #finish(frame: Frame, report: Report): void {
    const { endpoint } = frame.parcel
    frame.state = 'answered'
    const { kind } = classify(report, endpoint.classify, 0)
    if (kind === 'delivered' || kind === 'permanent') {
      this.memory.set(keyOf(frame.parcel), report)
      this.#ended.add(frame.parcel.deliveryId)
    } else this.#forget(endpoint, (one) => one.role === 'ahead' && one.state === 'waiting')
    const ack = (): void => {
      frame.report = report
      if (frame.role === null) this.#remove(frame)
      else if (frame.resolve !== null) this.#tell(frame)
    }
    if (this.#acksHeld === null) ack()
    else this.#acksHeld.push(ack)
    this.#pump(endpoint)
  }

  #tell(frame: Frame): void {
    if (frame.report === null) return
    this.#leave(frame, frame.report)
    for (const listener of this.#room) listener(frame.parcel.endpoint.id)
  }

  #leave(frame: Frame, report: Report): void {
    if (frame.state === 'running') frame.role = null
    else this.#remove(frame)
    frame.resolve?.(report)
    frame.resolve = null
  }

  /** What runs at the hub goes on there; of the rest nobody knows any more. */
  #forget(endpoint: Endpoint, pick: (frame: Frame) => boolean): void {
    const frames = this.#of(endpoint)
    for (const frame of frames.filter(pick)) {
      frame.role = null
      frame.resolve = null
    }
    this.#frames.set(
      endpoint.id,
      frames.filter((frame) => frame.role !== null || frame.state === 'running'),
    )
  }

  #remove(frame: Frame): void {
    const frames = this.#of(frame.parcel.endpoint)
    const at = frames.indexOf(frame)
    if (at >= 0) frames.splice(at, 1)
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
