import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Sent } from './ledger.ts'

export type CrowdOptions = Readonly<{
  first?: number
  paceMs?: number
  apiKey?: string
  patienceMs?: number | null
  hold?: () => Promise<void>
}>

/** Senders that go on through crashes: an event without an answer is sent again under its idempotency key. */
export class Crowd {
  readonly sent: Sent[] = []
  readonly #urls: readonly string[]
  readonly #senders: Promise<void>[]
  readonly #listeners = new Set<() => void>()
  readonly #first: number
  readonly #paceMs: number
  readonly #apiKey: string
  readonly #patienceMs: number | null
  readonly #hold: () => Promise<void>
  readonly #abandoned = new AbortController()
  readonly #closing = Promise.withResolvers<void>()
  #open = true

  /**
   * Numbers begin after `first`, so that crowds can follow each other; `paceMs` is between two events of a sender, and
   * whatever `hold` waits for. Of several servers each sender begins with another, and goes to the next when one refuses
   * or has not answered for `patienceMs`.
   */
  constructor(url: string | readonly string[], senders: number, options: CrowdOptions = {}) {
    const { first = 0, paceMs = 0, apiKey = '', patienceMs = null, hold = async () => {} } = options
    this.#urls = typeof url === 'string' ? [url] : url
    this.#patienceMs = patienceMs
    this.#first = first
    this.#paceMs = paceMs
    this.#apiKey = apiKey
    this.#hold = hold
    this.#senders = Array.from({ length: senders }, (_, index) => this.#send(`key-${index}`, index))
    // Whoever waits for the end is told.
    for (const sender of this.#senders) sender.catch(() => {})
  }

  async finish(): Promise<void> {
    this.#open = false
    this.#closing.resolve()
    await Promise.all(this.#senders)
  }

  /** For a test that has failed: nobody waits for an answer any more. */
  abandon(): void {
    this.#open = false
    this.#closing.resolve()
    this.#abandoned.abort()
  }

  /** Resolves when this many more events were acknowledged. */
  acknowledged(count: number): Promise<void> {
    const wanted = this.sent.length + count
    return new Promise((resolve) => {
      const look = (): void => {
        if (this.sent.length < wanted) return
        this.#listeners.delete(look)
        resolve()
      }
      this.#listeners.add(look)
      look()
    })
  }

  async #send(key: string, index: number): Promise<void> {
    for (let seq = 0; this.#open; seq++) {
      const n = this.#first + seq * 1_000 + index + 1
      const data = `{"n":${n},"key":${JSON.stringify(key)},"exact":1.0,"big":12345678901234567890,"filler":"${'x'.repeat(n % 300)}"}`
      const body = `{"type":"crash.test","key":${JSON.stringify(key)},"data":${data}}`
      const sha256 = createHash('sha256').update(data).digest('hex')
      const sentAt = performance.now()
      const eventId = await this.#untilAnswered(body, n)
      this.sent.push({ n, key, sha256, eventId, sentAt, ackedAt: performance.now() })
      for (const look of this.#listeners) look()
      if (this.#paceMs > 0) await pause(this.#paceMs)
      await Promise.race([this.#hold(), this.#closing.promise])
    }
  }

  async #untilAnswered(body: string, n: number): Promise<string> {
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': `${n}`,
      ...(this.#apiKey !== '' && { authorization: `Bearer ${this.#apiKey}` }),
    }
    for (let tries = 0; !this.#abandoned.signal.aborted; tries++) {
      try {
        const url = this.#urls[(n + tries) % this.#urls.length]
        const signal = this.#patienceMs === null ? null : AbortSignal.timeout(this.#patienceMs)
        const response = await fetch(`${url}/v1/events`, { method: 'POST', headers, body, signal })
        const answer = (await response.json()) as { id: string }
        if (response.status === 202) return answer.id
        if (response.status !== 503) throw new TypeError(`unexpected answer ${response.status}`)
      } catch (error) {
        if (error instanceof TypeError && error.message.startsWith('unexpected')) throw error
      }
      await pause(10)
    }
    throw new Error('abandoned')
  }
}
