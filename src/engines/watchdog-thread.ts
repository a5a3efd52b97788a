import { writeSync } from 'node:fs'
import { parentPort, workerData } from 'node:worker_threads'
import { cells, type WatchdogStart } from './watchdog.ts'

// The thread of the watchdog: looks whether the heartbeat goes on, and tells once when it does not.

const { shared, blockedMs, fd } = workerData as WatchdogStart
const numbers = new Int32Array(shared)
const names: string[] = []
const lookEveryMs = Math.max(10, Math.min(250, blockedMs / 4))

parentPort?.on('message', ({ number, name }: { number: number; name: string }) => {
  names[number] = name
})

let beat = Atomics.load(numbers, cells.beat)
let beatAt = performance.now()
let isTold = false

setInterval(() => {
  const now = Atomics.load(numbers, cells.beat)
  if (now !== beat) {
    beat = now
    beatAt = performance.now()
    isTold = false
    return
  }
  const forMs = Math.round(performance.now() - beatAt)
  if (isTold || forMs < blockedMs) return
  isTold = true
  tell(forMs)
}, lookEveryMs)

function tell(blockedForMs: number): void {
  const entered = Atomics.load(numbers, cells.entered)
  const handlers =
    entered >= 0 ? [names[entered]] : names.filter((_, number) => Atomics.load(numbers, cells.runs + number) > 0)
  // A loop that is blocked by something else is not ours to judge.
  if (handlers.length === 0) return
  const advice = 'a handler blocks the event loop: nothing else is taken in or delivered meanwhile'
  const line = {
    level: 'warn',
    time: new Date().toISOString(),
    handlers,
    isCertain: entered >= 0,
    blockedForMs,
    advice,
  }
  try {
    writeSync(fd, `${JSON.stringify({ ...line, msg: 'handler.blocks_the_loop' })}\n`)
  } catch {
    // There is nobody left to tell.
  }
}
