import type { Notice } from './core/notice.ts'
import type { NoticeFilter } from './core/notice-filter.ts'

export type NoticeListener = (notice: Notice) => void

/** Tells everyone who listens what has happened in this process. A listener must be quick; one that throws is the defect of its owner. */
export class Notices {
  readonly #listeners = new Set<NoticeListener>()
  readonly #onDefect: (error: unknown) => void

  constructor(onDefect: (error: unknown) => void) {
    this.#onDefect = onDefect
  }

  /** Whether anybody listens: a notice that nobody hears need not be put together. */
  get heard(): boolean {
    return this.#listeners.size > 0
  }

  publish(notice: Notice): void {
    for (const listener of this.#listeners) {
      try {
        listener(notice)
      } catch (error) {
        this.#onDefect(error)
      }
    }
  }

  /** Returns what ends it. */
  subscribe(listener: NoticeListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }
}

/**
 * What happens in the other processes that share the store. Some of it may get lost. Only those who watch listen here:
 * each notice is counted, notified and traced where it happened.
 */
export interface Elsewhere {
  /** Calls back with what passes one of the filters, instead of what was asked for before. No filter ends it. */
  listen(filters: readonly NoticeFilter[], listener: ElsewhereListener): void
}

export type ElsewhereListener = Readonly<{
  /** `at`: when it was published there. It may pass a filter of another process instead of these. */
  happened: (notice: Notice, at: number) => void
  /** So many notices of this tenant that some process wanted were not sent; null: of tenants that are not known. */
  dropped: (tenant: string | null, count: number) => void
}>
