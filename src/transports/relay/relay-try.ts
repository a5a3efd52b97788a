import type { RelayEndpoint } from '../../core/endpoint.ts'
import type { Report } from '../../core/outcome.ts'
import type { Parcel } from '../transport.ts'

export type RelayParcel = Parcel & Readonly<{ endpoint: RelayEndpoint }>

export function interrupted(message: string): Report {
  return { kind: 'interrupted', message }
}

/**
 * One call of `deliver`, from the wait for credit to the report. It ends once: whatever comes after that is nobody's.
 */
export class RelayTry {
  readonly parcel: RelayParcel
  readonly report: Promise<Report>
  readonly #resolve: (report: Report) => void
  readonly #signal: AbortSignal
  readonly #onAbort = (): void => this.end(interrupted('the try was interrupted'))
  readonly #onEnd: (ended: RelayTry) => void
  #timer: NodeJS.Timeout | null = null
  #isOver = false

  constructor(parcel: RelayParcel, signal: AbortSignal, onEnd: (ended: RelayTry) => void) {
    this.parcel = parcel
    const { promise, resolve } = Promise.withResolvers<Report>()
    this.report = promise
    this.#resolve = resolve
    this.#signal = signal
    this.#onEnd = onEnd
    signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Unless something else ends it before: this report, this much later. Takes the place of what was to come before. */
  endAfter(ms: number, report: () => Report): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = this.#isOver ? null : setTimeout(() => this.end(report()), ms)
  }

  end(report: Report): void {
    if (this.#isOver) return
    this.#isOver = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#resolve(report)
    this.#onEnd(this)
  }
}
