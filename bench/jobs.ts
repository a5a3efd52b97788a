/** What both sides of the jobs figure do: publish one by one from many publishers, and count what was handled. */
export type JobsCommands = Readonly<{
  open: (settings: { folder: string; handlers: number; redisPort: number }) => unknown
  run: (load: { jobs: number; publishers: number }) => Promise<JobsRun>
  close: (nothing: null) => unknown
}>

export type JobsRun = Readonly<{ wallS: number; handled: number; repeated: number }>

/** Each publisher waits for its last job to be acknowledged before it sends the next. */
export async function publish(jobs: number, publishers: number, send: (n: number) => unknown): Promise<void> {
  let next = 0
  const one = async (): Promise<void> => {
    for (let n = next++; n < jobs; n = next++) await send(n)
  }
  await Promise.all(Array.from({ length: publishers }, one))
}

/** Counts distinct jobs until all of a run are handled. */
export class Tally {
  #seen = new Uint8Array(0)
  #handled = 0
  #repeated = 0
  #onAll: (() => void) | null = null

  done(n: number): void {
    if (this.#seen[n] === 1) {
      this.#repeated += 1
      return
    }
    this.#seen[n] = 1
    this.#handled += 1
    if (this.#handled === this.#seen.length) this.#onAll?.()
  }

  async measure(jobs: number, run: () => Promise<void>): Promise<JobsRun> {
    this.#seen = new Uint8Array(jobs)
    this.#handled = 0
    this.#repeated = 0
    const all = Promise.withResolvers<void>()
    this.#onAll = all.resolve
    const startedAt = performance.now()
    await run()
    await all.promise
    return { wallS: (performance.now() - startedAt) / 1000, handled: this.#handled, repeated: this.#repeated }
  }
}
