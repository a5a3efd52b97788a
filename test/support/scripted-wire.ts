import type { Endpoint, EndpointKind } from '../../src/core/endpoint.ts'
import type { Report } from '../../src/core/outcome.ts'
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
  readonly #listeners: ((endpointId: string) => void)[] = []

  serves({ id }: Endpoint): boolean {
    return !this.absent.has(id)
  }

  onServing(listener: (endpointId: string) => void): void {
    this.#listeners.push(listener)
  }

  leave({ id }: Endpoint): void {
    this.absent.add(id)
    for (const listener of this.#listeners) listener(id)
  }

  come({ id }: Endpoint): void {
    this.absent.delete(id)
    for (const listener of this.#listeners) listener(id)
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    return new Promise<Report>((resolve) => {
      const one: Try = {
        parcel,
        at: this.#steady(),
        signal,
        answer: (report) => {
          this.open.delete(one)
          resolve(report)
        },
      }
      this.tries.push(one)
      this.open.add(one)
      this.#measure(parcel.endpoint.id)
      signal.addEventListener('abort', () => one.answer({ kind: 'interrupted', message: 'interrupted' }))
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

  async close(): Promise<void> {}

  #measure(endpointId: string): void {
    let open = 0
    for (const one of this.open) if (one.parcel.endpoint.id === endpointId) open += 1
    this.openMax = Math.max(this.openMax, this.open.size)
    this.openMaxOf.set(endpointId, Math.max(this.openMaxOf.get(endpointId) ?? 0, open))
  }
}
