import type { Notice } from './core/notice.ts'

export type NoticeListener = (notice: Notice) => void

/** Tells everyone who listens what has happened. A listener must be quick; one that throws is the defect of its owner. */
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
