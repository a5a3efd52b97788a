import { setTimeout as sleep } from 'node:timers/promises'

const everyMs = 20
const patienceMs = 60_000

/** What `look` finds as soon as it finds something, which must be within a minute. */
export async function eventually<T>(what: string, look: () => Promise<T | null>, waitMs = patienceMs): Promise<T> {
  const until = performance.now() + waitMs
  for (;;) {
    const found = await look()
    if (found !== null) return found
    if (performance.now() > until) throw new Error(`It never happened: ${what}.`)
    await sleep(everyMs)
  }
}
