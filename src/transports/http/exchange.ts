import type { Dispatcher } from 'undici'
import type { Report } from '../../core/outcome.ts'
import { reportFailure } from './failure.ts'
import type { Request } from './request.ts'

const bytesReadMax = 64 * 1_024
const headersKeptMax = 64
const headerLengthMax = 1_024
/** Answers like 103 that may come before the real one. Nobody means more; they would only keep us busy. */
const interimMax = 32

/** Ends the request on the wire; never seen outside. */
const over = new Error('the try is over')

type Headers = Readonly<Record<string, string | string[] | undefined>>

/** What an exchange needs from the transport around it. */
export type Surroundings = Readonly<{
  bytesKeptMax: number
  /** Called once, when the connection is done with the request; that may be long after the report. */
  released(exchange: Exchange): void
  /** Whether an error without any answer came from an idle connection that had died. Then the request goes out anew. */
  isStale(error: Error): boolean
  resend(exchange: Exchange): void
}>

/**
 * One request and its answer, as undici's handler. Once the status and the headers are there the answer counts, whatever
 * happens to its body. It may end (deadline, abort) long before undici has a connection for it; it then refuses to start.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly request: Request
  readonly #around: Surroundings
  readonly #resolve: (report: Report) => void
  #controller: Dispatcher.DispatchController | null = null
  #isOver = false
  #isReleased = false
  #hasBytes = false
  #wasResent = false
  #interims = 0
  #statusCode = 0
  #headers: Headers = {}
  #chunks: Buffer[] = []
  #bytesKept = 0
  #bytesRead = 0

  constructor(request: Request, around: Surroundings, resolve: (report: Report) => void) {
    this.request = request
    this.#around = around
    this.#resolve = resolve
  }

  /** Ends the try now: with the answer as far as it came, or with `otherwise` when there is none. */
  cut(otherwise: Report): void {
    if (this.#isOver) return
    this.#end(this.#statusCode === 0 ? otherwise : this.#answer())
    this.#controller?.abort(over)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // Thrown, not aborted: an abort would cost a connection that is in good order.
    if (this.#isOver) throw over
    this.#controller = controller
  }

  onResponseStarted(): void {
    this.#hasBytes = true
  }

  onResponseStart(controller: Dispatcher.DispatchController, statusCode: number, headers: Headers): void {
    if (this.#isOver) return
    if (statusCode >= 200) {
      this.#statusCode = statusCode
      this.#headers = headers
      return
    }
    this.#interims++
    if (this.#interims <= interimMax) return
    this.#end({ kind: 'unreachable', code: 'INTERIM_MAX', message: 'interim answers (1xx) came without an end' })
    controller.abort(over)
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isOver) return
    this.#bytesRead += chunk.length
    const room = this.#around.bytesKeptMax - this.#bytesKept
    if (room > 0) {
      const kept = chunk.length > room ? chunk.subarray(0, room) : chunk
      this.#chunks.push(kept)
      this.#bytesKept += kept.length
    }
    if (this.#bytesRead < bytesReadMax) return
    this.#end(this.#answer())
    controller.abort(over)
  }

  onResponseEnd(): void {
    this.#release()
    if (!this.#isOver) this.#end(this.#answer())
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    if (!this.#isOver && this.#mayResend(error)) {
      this.#wasResent = true
      this.#controller = null
      this.#around.resend(this)
      return
    }
    this.#release()
    if (!this.#isOver) this.#end(this.#statusCode === 0 ? reportFailure(error) : this.#answer())
  }

  #mayResend(error: Error): boolean {
    return !this.#wasResent && !this.#hasBytes && this.#controller !== null && this.#around.isStale(error)
  }

  #end(report: Report): void {
    this.#isOver = true
    this.#chunks = []
    this.#resolve(report)
  }

  #release(): void {
    if (this.#isReleased) return
    this.#isReleased = true
    this.#around.released(this)
  }

  #answer(): Report {
    const [first, ...others] = this.#chunks
    const bytes = first === undefined || others.length === 0 ? first : Buffer.concat(this.#chunks, this.#bytesKept)
    return {
      kind: 'answered',
      statusCode: this.#statusCode,
      headers: keptHeaders(this.#headers),
      body: bytes === undefined ? '' : bytes.toString('utf8'),
    }
  }
}

function keptHeaders(headers: Headers): Readonly<Record<string, string>> {
  const kept: Record<string, string> = Object.create(null)
  let count = 0
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined) continue
    if (++count > headersKeptMax) break
    kept[name] = (typeof value === 'string' ? value : value.join(', ')).slice(0, headerLengthMax)
  }
  return kept
}
