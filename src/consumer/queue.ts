/** First in, first out; each item is moved about once, however long the queue is. */
export class Queue<T> {
  #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  get first(): T | undefined {
    return this.#items[this.#head]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (this.length === 0) return undefined
    this.#head += 1
    if (this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  /** Leaves out what this does not hold for. */
  keep(holds: (item: T) => boolean): void {
    this.#items = this.#items.slice(this.#head).filter(holds)
    this.#head = 0
  }

  *[Symbol.iterator](): Generator<T> {
    for (let at = this.#head; at < this.#items.length; at++) yield this.#items[at] as T
  }
}
