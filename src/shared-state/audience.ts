import type { Notice } from '../core/notice.ts'
import { type NoticeFilter, noticeMatcher } from '../core/notice-filter.ts'

type Member = Readonly<{ endsAt: number; filters: string; matchers: readonly ((notice: Notice) => boolean)[] }>

const membersMax = 1_000

/** The other processes at which somebody listens, and to what. Each lapses unless it says so again. */
export class Audience {
  readonly #members = new Map<string, Member>()

  get size(): number {
    return this.#members.size
  }

  note(from: string, filters: readonly NoticeFilter[], endsAt: number): void {
    if (filters.length === 0) this.#members.delete(from)
    else if (this.#members.has(from) || this.size < membersMax) {
      const known = this.#members.get(from)
      const text = JSON.stringify(filters)
      const matchers = known?.filters === text ? known.matchers : filters.map(noticeMatcher)
      this.#members.set(from, { endsAt, filters: text, matchers })
    }
  }

  /** Forgets those that have not said for too long that somebody listens. */
  lapse(now: number): void {
    for (const [from, { endsAt }] of this.#members) if (endsAt <= now) this.#members.delete(from)
  }

  wants(notice: Notice): boolean {
    for (const { matchers } of this.#members.values()) if (matchers.some((matches) => matches(notice))) return true
    return false
  }

  clear(): void {
    this.#members.clear()
  }
}
