import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Sent } from './ledger.ts'

/** Senders that go on through crashes: an event without an answer is sent again under its idempotency key. */
export class Crowd {
  readonly sent: Sent[] = []
  readonly #url: string
  readonly #senders: Promise<void>[]
  readonly #listeners = new Set<() => void>()
  readonly #first: number
  readonly #paceMs: number
  readonly #apiKey: string
  readonly #hold: () => Promise<void>
  readonly #abandoned = new AbortController()
  readonly #closing = Promise.withResolvers<void>()
  #open = true

  /**
   * Numbers begin after `first`, so that crowds can follow each other; `paceMs` is between two events of a sender, and
   * whatever `hold` waits for.
   */
  constructor(url: string, senders: number, { first = 0, paceMs = 0, apiKey = '', hold = async () => {} } = {}) {
    this.#url = url
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
      const eventId = await this.#untilAnswered(body, `${n}`)
      this.sent.push({ n, key, sha256, eventId, sentAt, ackedAt: performance.now() })
      for (const look of this.#listeners) look()
      if (this.#paceMs > 0) await pause(this.#paceMs)
      await Promise.race([this.#hold(), this.#closing.promise])
    }
  }

  async #untilAnswered(body: string, idempotencyKey: string): Promise<string> {
    const headers = {
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
      ...(this.#apiKey !== '' && { authorization: `Bearer ${this.#apiKey}` }),
    }
    while (!this.#abandoned.signal.aborted) {
      try {
        const response = await fetch(`${this.#url}/v1/events`, { method: 'POST', headers, body })
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
