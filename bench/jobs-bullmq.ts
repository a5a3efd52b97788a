// The jobs figure, the other side: BullMQ in this process, on the Redis that the bench has started.
import { Queue, Worker } from 'bullmq'
import { serve } from './ipc.ts'
import { type JobsCommands, publish, Tally } from './jobs.ts'

let queue: Queue | null = null
let worker: Worker | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ handlers, redisPort }) => {
    const connection = { host: '127.0.0.1', port: redisPort }
    queue = new Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true, attempts: 5 } })
    worker = new Worker('bench', async ({ data }) => tally.done(data.n), { connection, concurrency: handlers })
    await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
  },
  run: ({ jobs, publishers }) => {
    const send = (n: number) => queue?.add('job', { n, text: 'x'.repeat(170) })
    return tally.measure(jobs, () => publish(jobs, publishers, send))
  },
  close: async () => {
    await worker?.close()
    await queue?.close()
  },
}

serve(commands)
