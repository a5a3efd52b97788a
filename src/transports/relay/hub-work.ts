import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { formatDuration } from '../../core/duration.ts'
import type { Endpoint, RelayEndpoint } from '../../core/endpoint.ts'
import type { Report } from '../../core/outcome.ts'
import { linkLost, noAck } from '../../core/relay.ts'
import type { Answer } from '../transport.ts'
import type { Compression } from './compression.ts'
import { type DeliverFrame, deliverFrame, rulesOf } from './deliver-frame.ts'
import { keptOf } from './hub-report.ts'
import { type Frame, Outstanding } from './outstanding.ts'
import type { Ack, Credit, Hello, ToHub } from './protocol.ts'
import { interrupted, type RelayParcel, RelayTry } from './relay-try.ts'
import type { Timings } from './timings.ts'

export type HubWorkParts = Readonly<{
  relay: string
  wire: Readonly<{ ws: WebSocket; socket: Duplex; send: (message: ToHub) => void }>
  compression: Compression
  waits: Pick<Timings, 'ackGraceMs' | 'givenBackMs'>
  onRoom: (endpointId: string) => void
}>

/** What our end of the connection holds for a hub that reads too slowly. More waits for what is before it. */
const unsentBytesMax = 4 * 1024 * 1024
/** Beyond this all endpoints are told anew: those of the past need not be remembered. */
const endpointsToldMax = 10_000

const givenBack = interrupted('the hub gave it back untried')

/** The deliveries that one hub has, is to have next, and has answered; from its hello to the end of its link. */
export class HubWork {
  readonly #parts: HubWorkParts
  readonly #routes: ReadonlySet<string>
  readonly #frameBytesMax: number
  readonly #outstanding: Outstanding
  /** Those whose turn it is and for which there is no credit, in their order. */
  readonly #waiting = new Set<RelayTry>()
  /** Those that the hub gave back at their turn, and that are not given back yet. */
  readonly #givenBack = new Set<RelayTry>()
  readonly #told = new Map<string, Endpoint>()
  /** Who was told how much room there is, and would like to know when it is more. */
  readonly #curious = new Set<string>()
  #isTelling = false
  #isStopped = false

  constructor(hello: Hello, parts: HubWorkParts) {
    this.#parts = parts
    this.#routes = new Set(hello.routes)
    this.#frameBytesMax = hello.frameBytesMax
    this.#outstanding = new Outstanding(hello.credit)
  }

  get outstanding(): number {
    return this.#outstanding.count
  }

  serves({ route }: RelayEndpoint): boolean {
    return !this.#isStopped && this.#isOpen && this.#routes.has(route)
  }

  /** A hub that has said goodbye reads nothing any more, though its connection is there a while longer. */
  get #isOpen(): boolean {
    const { ws } = this.#parts.wire
    return ws.readyState === ws.OPEN
  }

  /** Nothing more begins. What the hub has is still waited for. */
  stop(): void {
    this.#isStopped = true
    for (const attempt of this.#waiting) attempt.end(interrupted('the link is about to be closed'))
    for (const attempt of this.#givenBack) attempt.end(givenBack)
  }

  /** The link is gone: what the hub had may have been tried, what it had not was not. */
  lose(why: string): void {
    this.stop()
    const message = `the link to the hub ${this.#parts.relay} was lost: ${why}`
    for (const attempt of this.#outstanding.attempts()) attempt.end({ kind: 'unreachable', code: linkLost, message })
  }

  deliver(parcel: RelayParcel, signal: AbortSignal): Promise<Report> {
    const attempt = new RelayTry(parcel, signal, (ended) => this.#forget(ended))
    const frame = this.#outstanding.find(parcel.deliveryId)
    if (frame === null) this.#begin(attempt)
    else this.#join(attempt, frame)
    return attempt.report
  }

  #forget(ended: RelayTry): void {
    this.#waiting.delete(ended)
    this.#givenBack.delete(ended)
  }

  /** The hub has it already, or has answered it: because it was sent ahead, or because an earlier try gave it up. */
  #join(attempt: RelayTry, frame: Frame): void {
    if (frame.attempt?.isOver === false) {
      attempt.end(interrupted('this delivery is being tried'))
      return
    }
    const wasGivenUp = frame.standing === 'turn'
    const isSameLife = frame.bornAt === attempt.parcel.bornAt
    const answer = this.#outstanding.turn(frame)
    if (answer !== null) {
      if (isSameLife) attempt.end(answer.report)
      else this.#begin(attempt)
      return
    }
    frame.attempt = attempt
    // Said again, because nobody knows what became of it. The hub takes it for the same one. While the hub does not read,
    // the first is still with us.
    if (wasGivenUp && isSameLife && this.#isRead)
      this.#write(deliverFrame(attempt.parcel, null), attempt.parcel.endpoint)
    this.#awaitAnswer(attempt)
  }

  #begin(attempt: RelayTry): void {
    const { event, endpoint } = attempt.parcel
    const { length } = event.body
    // What its head adds is small, and only known when it is made: then it is looked at again.
    const bytesMax = Math.min(this.#frameBytesMax, this.#outstanding.bodyBytesMax)
    if (this.#isStopped) attempt.end(interrupted('the link is about to be closed'))
    else if (length > bytesMax) attempt.end(this.#tooLarge(length, bytesMax))
    else if (this.#waiting.size === 0 && this.#mayWrite(length)) this.#sendTurn(attempt)
    else {
      this.#waiting.add(attempt)
      attempt.endAfter(endpoint.timeoutMs, () => interrupted('the hub had no room for it in time'))
    }
  }

  #tooLarge(bytes: number, bytesMax: number): Report {
    const message = `the hub ${this.#parts.relay} takes at most ${bytesMax} bytes, and this has ${bytes}`
    return { kind: 'oversized', message }
  }

  #mayWrite(bytes: number): boolean {
    if (!this.#isOpen || !this.#outstanding.fits(bytes)) return false
    return this.#outstanding.count === 0 || this.#isRead
  }

  get #isRead(): boolean {
    return this.#parts.wire.ws.bufferedAmount < unsentBytesMax
  }

  #sendTurn(attempt: RelayTry): void {
    const { parcel } = attempt
    const frame = deliverFrame(parcel, null)
    if (frame.bytes > this.#frameBytesMax) {
      attempt.end(this.#tooLarge(frame.bytes, this.#frameBytesMax))
      return
    }
    this.#write(frame, parcel.endpoint)
    this.#outstanding.add(frameOf(parcel, { behind: null, attempt }))
    this.#awaitAnswer(attempt)
  }

  #awaitAnswer(attempt: RelayTry): void {
    const waitMs = attempt.parcel.endpoint.timeoutMs + this.#parts.waits.ackGraceMs
    attempt.endAfter(waitMs, () => {
      const message = `the hub ${this.#parts.relay} did not answer within ${formatDuration(waitMs)}`
      return { kind: 'unreachable', code: noAck, message }
    })
  }

  #write({ first, rest }: DeliverFrame, endpoint: RelayEndpoint): void {
    const { ws, send } = this.#parts.wire
    if (this.#told.get(endpoint.id) !== endpoint) {
      if (this.#told.size >= endpointsToldMax) this.#told.clear()
      this.#told.set(endpoint.id, endpoint)
      send(rulesOf(endpoint))
    }
    if (rest.length === 0) ws.send(first)
    else this.#writeLarge(first, rest)
  }

  /** As one message in two fragments, so that the rest is not copied. */
  #writeLarge(first: Buffer, rest: Uint8Array): void {
    const { ws } = this.#parts.wire
    const { compression } = this.#parts
    const compress = ws.extensions !== '' && compression.take(rest.length)
    ws.send(first, { fin: false, compress })
    ws.send(rest, { compress }, () => {
      if (compress) compression.free(rest.length)
    })
  }

  // ── What is sent ahead of its turn ──────────────────────────────────────────────────────────────────────────────

  room(endpoint: RelayEndpoint): Credit {
    const isFull = this.#waiting.size > 0 || !this.#isRead
    this.#curious.add(endpoint.id)
    if (isFull || !this.serves(endpoint)) return { frames: 0, bytes: 0 }
    return this.#outstanding.room(endpoint.id)
  }

  /** As many as fit. Behind something that the hub does not have, or not any more, it would only return them. */
  sendAhead(parcels: readonly RelayParcel[], behind: string): number {
    const [first] = parcels
    if (first === undefined || !this.#outstanding.knows(first.endpoint.id, behind)) return 0
    const { socket } = this.#parts.wire
    socket.cork()
    let before = behind
    let sent = 0
    for (const parcel of parcels) {
      const room = this.room(parcel.endpoint)
      const { length } = parcel.event.body
      if (room.frames < 1 || room.bytes < length || this.#outstanding.find(parcel.deliveryId) !== null) break
      const frame = deliverFrame(parcel, before)
      if (frame.bytes > this.#frameBytesMax) break
      this.#write(frame, parcel.endpoint)
      this.#outstanding.add(frameOf(parcel, { behind: before, attempt: null }))
      before = parcel.deliveryId
      sent += 1
    }
    socket.uncork()
    return sent
  }

  answersBehind(deliveryId: string): readonly Answer[] {
    return this.#outstanding.answersBehind(deliveryId)
  }

  recall({ id }: RelayEndpoint): void {
    if (this.#outstanding.takeBack(id)) this.#parts.wire.send({ kind: 'recall', endpoint: id })
  }

  // ── What the hub says ───────────────────────────────────────────────────────────────────────────────────────────

  /** Answers whether somebody wanted to know. */
  acked(ack: Ack): boolean {
    const { delivery, bornAt } = ack
    const frame = this.#outstanding.acked(delivery, bornAt)
    if (frame === null) return false
    const kept = keptOf(ack)
    if (frame.standing === 'ahead') frame.answer = { deliveryId: delivery, ...kept }
    const { attempt } = frame
    if (attempt === null || attempt.isOver) return frame.standing !== 'turn'
    if (attempt.parcel.bornAt === bornAt) attempt.end(kept.report)
    else this.#begin(attempt)
    return true
  }

  returned(deliveryId: string): boolean {
    const frame = this.#outstanding.returned(deliveryId)
    if (frame === null) return false
    const { attempt } = frame
    if (attempt === null || attempt.isOver) return true
    // Because of what it was behind, which does not count any more: now it is its turn.
    const wasAhead = frame.behind !== null || attempt.parcel.bornAt !== frame.bornAt
    if (wasAhead) this.#begin(attempt)
    else if (this.#isStopped) attempt.end(givenBack)
    else {
      this.#givenBack.add(attempt)
      attempt.endAfter(this.#parts.waits.givenBackMs, () => givenBack)
    }
    return true
  }

  /** Gives what has become free to those who wait for it. */
  flush(): void {
    for (const attempt of this.#waiting) {
      if (!this.#mayWrite(attempt.parcel.event.body.length)) break
      this.#waiting.delete(attempt)
      this.#sendTurn(attempt)
    }
    if (this.#curious.size > 0 && !this.#isTelling && this.#waiting.size === 0 && this.#outstanding.isRoomy) {
      // Once for all the answers that came together.
      this.#isTelling = true
      setImmediate(() => this.#tellRoom())
    }
  }

  #tellRoom(): void {
    this.#isTelling = false
    const curious = [...this.#curious]
    this.#curious.clear()
    if (this.#isStopped) return
    for (const endpointId of curious) this.#parts.onRoom(endpointId)
  }
}

function frameOf(parcel: RelayParcel, { behind, attempt }: Pick<Frame, 'behind' | 'attempt'>): Frame {
  return {
    deliveryId: parcel.deliveryId,
    bornAt: parcel.bornAt,
    endpointId: parcel.endpoint.id,
    bytes: parcel.event.body.length,
    standing: behind === null ? 'turn' : 'ahead',
    behind,
    answer: null,
    attempt,
  }
}
