// The jobs figure, our side: Posthorn as a library, on a file of its own that is synced before every answer.
import { join } from 'node:path'
import { openPosthorn, type Posthorn } from '../src/index.ts'
import { serve } from './ipc.ts'
import { type JobsCommands, publish, Tally } from './jobs.ts'

let posthorn: Posthorn | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ folder, handlers }) => {
    posthorn = await openPosthorn({ database: `sqlite:${join(folder, 'posthorn.db')}`, logLevel: 'error' })
    await posthorn.handle('job', async ({ data }) => tally.done(data.n), { concurrency: handlers }).ready
  },
  run: ({ jobs, publishers }) => {
    const send = (n: number) => posthorn?.send('job', { n, text: 'x'.repeat(170) })
    return tally.measure(jobs, () => publish(jobs, publishers, send))
  },
  close: () => posthorn?.close(),
}

serve(commands)
