/** What all sides of the job figures do: publish from many publishers, and count what was handled. */
export type JobsCommands = Readonly<{
  open: (settings: JobsSettings) => unknown
  run: (load: JobsLoad) => Promise<JobsRun>
  close: (nothing: null) => unknown
}>

export type JobsSettings = Readonly<{
  /** `sqlite:…`, `redis://…` or `postgres://…` */
  database: string
  handlers: number
  /** Where the database needs one. */
  encryptionKey?: string
  ordering?: 'none' | 'key'
}>

export type JobsLoad = Readonly<{
  jobs: number
  publishers: number
  /** How many jobs a publisher sends in one call. */
  batch: number
  /** How many ordering keys the jobs have; 0: they have none. */
  keys?: number
}>

export type JobsRun = Readonly<{ wallS: number; handled: number; repeated: number }>

export type JobData = Readonly<{ n: number; text: string }>

export function jobData(n: number): JobData {
  return { n, text: 'x'.repeat(170) }
}

/** Each publisher waits for its last jobs to be acknowledged before it sends the next. */
export async function publish(
  { jobs, publishers, batch }: JobsLoad,
  send: (numbers: readonly number[]) => unknown,
): Promise<void> {
  let next = 0
  const take = (): readonly number[] => {
    const first = next
    next = Math.min(jobs, next + batch)
    return Array.from({ length: next - first }, (_, at) => first + at)
  }
  const one = async (): Promise<void> => {
    for (let numbers = take(); numbers.length > 0; numbers = take()) await send(numbers)
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
