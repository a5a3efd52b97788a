/** How the other side of a transport ends what reached it. `break`: without an answer. */
export type Ending = 'ok' | 'fail' | 'break'

/** A delivery that reached the other side of a transport. It is under way until it is answered. */
export type Arrived = Readonly<{
  deliveryId: string
  attempt: number
  body: string
  answer(ending: Ending): void
}>

/** What reached the other side, in its order. */
export class Arrivals {
  readonly #untaken: Arrived[] = []
  readonly #waiting: ((one: Arrived) => void)[] = []

  add(one: Arrived): void {
    const waiter = this.#waiting.shift()
    if (waiter === undefined) this.#untaken.push(one)
    else waiter(one)
  }

  /** The next that nobody has taken yet; waits for it. */
  next(): Promise<Arrived> {
    const one = this.#untaken.shift()
    return one === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(one)
  }
}
