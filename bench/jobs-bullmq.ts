// The jobs figure, the other side: BullMQ in this process, on the Redis that the bench has started.
import { serve } from './ipc.ts'
import { type JobsCommands, jobData, publish, Tally } from './jobs.ts'
import { importPeer } from './peers.ts'

/** As much of BullMQ as the figure needs: it is brought at run time, and its types are not. */
type Queue = {
  add(name: string, data: object): Promise<unknown>
  close(): Promise<void>
  waitUntilReady(): Promise<unknown>
}
type Worker = { close(): Promise<void>; waitUntilReady(): Promise<unknown> }
type BullMq = Readonly<{
  Queue: new (name: string, options: object) => Queue
  Worker: new (name: string, run: (job: { data: { n: number } }) => Promise<void>, options: object) => Worker
}>

let queue: Queue | null = null
let worker: Worker | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ handlers, database }) => {
    const bullmq = (await importPeer('bullmq')) as BullMq
    const { hostname, port } = new URL(database)
    const connection = { host: hostname, port: Number(port) }
    queue = new bullmq.Queue('bench', { connection, defaultJobOptions: { removeOnComplete: true, attempts: 5 } })
    worker = new bullmq.Worker('bench', async ({ data }) => tally.done(data.n), { connection, concurrency: handlers })
    await Promise.all([queue.waitUntilReady(), worker.waitUntilReady()])
  },
  run: (load) => tally.measure(load.jobs, () => publish(load, ([n = 0]) => queue?.add('job', jobData(n)))),
  close: async () => {
    await worker?.close()
    await queue?.close()
  },
}

serve(commands)
