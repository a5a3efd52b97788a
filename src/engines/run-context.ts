import type { HandlerContext, Task } from './engine.ts'

export type AbortReason = 'TimeoutError' | 'AbortError'

const reasons: Readonly<Record<AbortReason, string>> = {
  TimeoutError: 'The timeout of this try is over.',
  AbortError: 'Posthorn is stopping.',
}

/** What a handler sees of its run; a class, because an object with a getter of its own is slow to make. */
export class RunContext implements HandlerContext {
  readonly attempt: number
  readonly deliveryId: string
  /** Made when it is asked for: most handlers never look at it. */
  #controller: AbortController | null = null

  constructor({ attempt, ref }: Pick<Task, 'attempt' | 'ref'>) {
    this.attempt = attempt
    this.deliveryId = ref
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
