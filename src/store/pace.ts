export type PaceSettings = Readonly<{
  /** How much one piece may be at most, in whatever the work counts. */
  limitMin: number
  limitMax: number
  /** From then on, by `now`, what is left to do counts for more than what the others notice of it. 0: somebody waits for it. */
  hurriesAt: number
  stopping?: AbortSignal
  /** Milliseconds on a clock that only goes forward. */
  now?: () => number
  rest?: (ms: number, signal: AbortSignal) => Promise<void>
}>

/** What a piece came to; what only looked says nothing of how long writing takes. */
export type PieceEnd = 'wrote' | 'looked' | 'done'

type Speed = Readonly<{
  /**
   * So much longer than the quickest a piece may take: others' writes wait in line for that long, beside the disk. Where
   * the disk itself is slow it may be more, in proportion: there every piece costs others its sync.
   */
  pieceMs: number
  /** For every millisecond of work, so many of rest. */
  restFactor: number
}>
const gentle: Speed = { pieceMs: 0.4, restFactor: 12 }
const hurried: Speed = { pieceMs: 5, restFactor: 1 }
const pieceShareOfSync = 0.25
const restMsMax = 2_000

/**
 * How long work shares the store with others: it is cut into pieces that come between theirs. It learns how large a piece
 * may be to be quick here, and rests after each in proportion to the time that it took.
 */
export class Pace {
  readonly #settings: Required<PaceSettings>
  #limit: number
  /** What any write takes here, however small: most of it is the sync of the disk, which the pieces share with others. */
  #quickestMs = Number.POSITIVE_INFINITY

  constructor(settings: PaceSettings) {
    this.#settings = { stopping: never, now: () => performance.now(), rest, ...settings }
    this.#limit = settings.limitMin
  }

  /** Runs pieces until one answers that it was the last, or until it is stopped. */
  async work(piece: (limit: number) => Promise<PieceEnd>): Promise<void> {
    const { hurriesAt, stopping, now, rest } = this.#settings
    while (!stopping.aborted) {
      const startedAt = now()
      const end = await piece(this.#limit)
      if (end === 'done') return
      const endedAt = now()
      const speed = endedAt < hurriesAt ? gentle : hurried
      if (end === 'wrote') this.#learn(endedAt - startedAt, speed)
      await rest(Math.min(restMsMax, (endedAt - startedAt) * speed.restFactor), stopping)
    }
  }

  #learn(tookMs: number, { pieceMs }: Speed): void {
    const { limitMin, limitMax } = this.#settings
    this.#quickestMs = Math.min(this.#quickestMs, tookMs)
    const ownMs = tookMs - this.#quickestMs
    const wantedMs = Math.max(pieceMs, this.#quickestMs * pieceShareOfSync)
    if (ownMs > wantedMs) this.#limit = Math.max(limitMin, Math.floor(this.#limit / 2))
    else if (ownMs < wantedMs / 2) this.#limit = Math.min(limitMax, this.#limit * 2)
  }
}

const never = new AbortController().signal

/** An aborted rest is over; who works on looks at the signal. */
export function rest(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms).unref()
    signal.addEventListener('abort', end, { once: true })

    function end(): void {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
  })
}
