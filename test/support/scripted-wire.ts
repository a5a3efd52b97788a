import type { Endpoint, EndpointKind } from '../../src/core/endpoint.ts'
import type { Report } from '../../src/core/outcome.ts'
import { reportOf } from '../../src/engines/run-report.ts'
import type { Parcel, Transport } from '../../src/transports/transport.ts'

/** What the other end does with a try: answers at once, later, or when the test says so. */
export type Script = (parcel: Parcel, tries: number) => Report | Promise<Report> | 'hold'

export const answered = (statusCode: number, headers: Record<string, string> = {}): Report => ({
  kind: 'answered',
  statusCode,
  headers,
  body: '',
})
export const unreachable = (code: string): Report => ({ kind: 'unreachable', code, message: code })
export const interrupted: Report = { kind: 'interrupted', message: 'interrupted' }

/** One try that reached the other end. */
export type Try = Readonly<{ parcel: Parcel; at: number; signal: AbortSignal; answer(report: Report): void }>

/** The other end of the wire, and the transport to it. */
export class ScriptedWire implements Transport {
  readonly kind: EndpointKind
  readonly tries: Try[] = []
  /** Tries without an answer. */
  readonly open = new Set<Try>()
  openMax = 0
  readonly openMaxOf = new Map<string, number>()
  script: Script
  readonly #steady: () => number

  constructor(script: Script, steady: () => number, kind: EndpointKind = 'http') {
    this.kind = kind
    this.script = script
    this.#steady = steady
  }

  /** Endpoints whose other end is not there. */
  readonly absent = new Set<string>()
  /** Who asked since it was told. Nobody else is told. */
  readonly #askers = new Set<string>()
  readonly #listeners: ((endpointId: string) => void)[] = []
  #closed: PromiseWithResolvers<void> | null = null

  serves({ id }: Endpoint): boolean {
    this.#askers.add(id)
    return !this.absent.has(id)
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#listeners.push(listener)
  }

  leave({ id }: Endpoint): void {
    this.absent.add(id)
    this.#tell(id)
  }

  come({ id }: Endpoint): void {
    this.absent.delete(id)
    this.#tell(id)
  }

  #tell(endpointId: string): void {
    if (!this.#askers.delete(endpointId)) return
    for (const listener of this.#listeners) listener(endpointId)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    const { id, timeoutMs } = parcel.endpoint
    if (signal.aborted || this.#closed !== null || this.absent.has(id)) return Promise.resolve(interrupted)
    return new Promise<Report>((resolve) => {
      const deadline = setTimeout(() => one.answer(late(this.kind, timeoutMs)), timeoutMs)
      const onAbort = (): void => one.answer(interrupted)
      const one: Try = {
        parcel,
        at: this.#steady(),
        signal,
        answer: (report) => {
          if (!this.open.delete(one)) return
          clearTimeout(deadline)
          signal.removeEventListener('abort', onAbort)
          resolve(report)
          if (this.open.size === 0) this.#closed?.resolve()
        },
      }
      this.tries.push(one)
      this.open.add(one)
      this.#measure(id)
      signal.addEventListener('abort', onAbort)
      const answer = this.script(parcel, this.tries.length)
      if (answer !== 'hold') Promise.resolve(answer).then(one.answer)
    })
  }

  /** Answers what is open, oldest first; `pick` leaves others alone. */
  answerAll(report: Report, pick: (one: Try) => boolean = () => true): void {
    for (const one of [...this.open]) if (pick(one)) one.answer(report)
  }

  triesOf(endpoint: Endpoint): readonly Try[] {
    return this.tries.filter((one) => one.parcel.endpoint.id === endpoint.id)
  }

  openOf(endpoint: Endpoint): number {
    let open = 0
    for (const one of this.open) if (one.parcel.endpoint.id === endpoint.id) open += 1
    return open
  }

  async refusal(): Promise<null> {
    return null
  }

  close(): Promise<void> {
    this.#closed ??= Promise.withResolvers<void>()
    if (this.open.size === 0) this.#closed.resolve()
    return this.#closed.promise
  }

  #measure(endpointId: string): void {
    let open = 0
    for (const one of this.open) if (one.parcel.endpoint.id === endpointId) open += 1
    this.openMax = Math.max(this.openMax, this.open.size)
    this.openMaxOf.set(endpointId, Math.max(this.openMaxOf.get(endpointId) ?? 0, open))
  }
}

function late(kind: EndpointKind, timeoutMs: number): Report {
  if (kind !== 'handler') return unreachable('DEADLINE')
  return reportOf({ kind: 'overran', settled: Promise.resolve() }, timeoutMs)
}
