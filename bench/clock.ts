import { hrtime } from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'

export { sleep }

/** Microseconds of the machine's monotonic clock: comparable between the processes of the bench. */
export function nowUs(): number {
  return Number(hrtime.bigint()) / 1000
}

/** Asks again and again until the answer is yes; throws when it is still no after the time. */
export async function until(
  what: string,
  timeoutMs: number,
  isTrue: () => boolean | Promise<boolean>,
  everyMs = 50,
): Promise<void> {
  const giveUpAt = performance.now() + timeoutMs
  while (!(await isTrue())) {
    if (performance.now() > giveUpAt) throw new Error(`${what}: not within ${timeoutMs} ms`)
    await sleep(everyMs)
  }
}
