// The job figures, our side: the library in this process, no-op handlers, every job fsynced before it is acknowledged.
import { openPosthorn, type Posthorn } from '../src/index.ts'
import { serve } from './ipc.ts'
import { type JobsCommands, jobData, publish, Tally } from './jobs.ts'

let posthorn: Posthorn | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ database, handlers, encryptionKey, ordering = 'none' }) => {
    const key = encryptionKey === undefined ? {} : { encryptionKey }
    posthorn = await openPosthorn({ database, ...key, logLevel: 'warn' })
    posthorn.handle('bench.job', async (event) => tally.done((event.data as { n: number }).n), {
      concurrency: handlers,
      ordering,
    })
  },
  run: async (load) => tally.measure(load.jobs, () => publish(load, (numbers) => send(numbers, load.keys ?? 0))),
  close: () => posthorn?.close(),
}

function send(numbers: readonly number[], keys: number): unknown {
  const type = 'bench.job'
  const [n = 0] = numbers
  if (numbers.length === 1) return posthorn?.send(type, jobData(n), keyOf(n, keys))
  return posthorn?.sendBatch(numbers.map((each) => ({ type, data: jobData(each), ...keyOf(each, keys) })))
}

/** Spread as if by chance, and the same in every run. */
function keyOf(n: number, keys: number): { key?: string } {
  return keys === 0 ? {} : { key: `key-${(Math.imul(n, 0x9e3779b1) >>> 0) % keys}` }
}

serve(commands)
