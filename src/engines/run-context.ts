import type { HandlerContext, RecordContext, TaskRules } from './engine.ts'

export type AbortReason = 'TimeoutError' | 'AbortError'

const reasons: Readonly<Record<AbortReason, string>> = {
  TimeoutError: 'The timeout of this try is over.',
  AbortError: 'Posthorn is stopping.',
}

/** What a handler sees of its run; a class, because an object with a getter of its own is slow to make. */
export class RunContext implements HandlerContext, RecordContext {
  readonly attempt: number
  readonly deliveryId: string
  readonly #name: string
  /** Made when it is asked for: most handlers never look at it. */
  #controller: AbortController | null = null

  constructor({ name, attempt, ref }: Pick<TaskRules, 'name' | 'attempt' | 'ref'>) {
    this.#name = name
    this.attempt = attempt
    this.deliveryId = ref
  }

  get consumer(): string {
    return this.#name
  }

  get signal(): AbortSignal {
    return this.#control().signal
  }

  get isAborted(): boolean {
    return this.#controller?.signal.aborted ?? false
  }

  /** For the engine; the interface that handlers know does not have it. */
  abort(reason: AbortReason): void {
    this.#control().abort(new DOMException(reasons[reason], reason))
  }

  #control(): AbortController {
    this.#controller ??= new AbortController()
    return this.#controller
  }
}
