type Entry<T> = Readonly<{ at: number; order: number; item: T }>

/** What happens when, taken in the order of time; at the same instant, in the order in which it was added. A heap. */
export class Agenda<T> {
  readonly #heap: Entry<T>[] = []
  #added = 0

  /** When the next thing happens; null: nothing is left. */
  firstAt(): number | null {
    return this.#heap[0]?.at ?? null
  }

  add(at: number, item: T): void {
    const entry = { at, order: this.#added, item }
    this.#added += 1
    let place = this.#heap.length
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = this.#heap[above]
      if (parent === undefined || !isBefore(entry, parent)) break
      this.#heap[place] = parent
      place = above
    }
    this.#heap[place] = entry
  }

  take(): T | null {
    const first = this.#heap[0]
    const last = this.#heap.pop()
    if (first === undefined || last === undefined) return null
    if (this.#heap.length > 0) this.#sink(last)
    return first.item
  }

  #sink(entry: Entry<T>): void {
    let place = 0
    for (;;) {
      const left = this.#heap[2 * place + 1]
      const right = this.#heap[2 * place + 2]
      const isRight = left !== undefined && right !== undefined && isBefore(right, left)
      const child = isRight ? right : left
      if (child === undefined || !isBefore(child, entry)) break
      this.#heap[place] = child
      place = 2 * place + (isRight ? 2 : 1)
    }
    this.#heap[place] = entry
  }
}

function isBefore<T>(a: Entry<T>, b: Entry<T>): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
