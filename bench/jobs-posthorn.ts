// The jobs figure, our side: the library in this process, no-op handlers, every job fsynced before it is acknowledged.
import { openPosthorn, type Posthorn } from '../src/index.ts'
import { serve } from './ipc.ts'
import { type JobsCommands, publish, Tally } from './jobs.ts'

let posthorn: Posthorn | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ folder, handlers }) => {
    posthorn = await openPosthorn({ database: `sqlite:${folder}/jobs.db`, logLevel: 'warn' })
    posthorn.handle('bench.job', async (event) => tally.done((event.data as { n: number }).n), {
      concurrency: handlers,
    })
  },
  run: async ({ jobs, publishers }) => {
    const send = (n: number) => posthorn?.send('bench.job', { n, text: 'x'.repeat(170) })
    return tally.measure(jobs, () => publish(jobs, publishers, send))
  },
  close: () => posthorn?.close(),
}

serve(commands)
