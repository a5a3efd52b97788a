// The Postgres jobs figure, the other side: graphile-worker in this process, with its local queue and batched completion.
import { serve } from './ipc.ts'
import { type JobData, type JobsCommands, jobData, publish, Tally } from './jobs.ts'
import { importPeer } from './peers.ts'

/** As much of graphile-worker as the figure needs: it is brought at run time, and its types are not. */
type JobSender = {
  addJob(task: string, payload: JobData): Promise<unknown>
  addJobs(jobs: readonly { identifier: string; payload: JobData }[]): Promise<unknown>
  release(): Promise<void>
}
type GraphileWorker = Readonly<{
  run: (options: object) => Promise<{ stop(): Promise<void> }>
  makeWorkerUtils: (options: object) => Promise<JobSender>
  Logger: new (toLog: () => () => void) => object
}>

/** As its own performance test sets them. */
const batching = { localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0 }

let sender: JobSender | null = null
let runner: Awaited<ReturnType<GraphileWorker['run']>> | null = null
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ database, handlers }) => {
    const { run, makeWorkerUtils, Logger } = (await importPeer('graphile-worker')) as GraphileWorker
    const shared = { connectionString: database, logger: new Logger(() => () => {}) }
    sender = await makeWorkerUtils(shared)
    runner = await run({
      ...shared,
      concurrency: handlers,
      noHandleSignals: true,
      preset: { worker: batching },
      taskList: { bench: async ({ n }: JobData) => tally.done(n) },
    })
  },
  run: (load) => tally.measure(load.jobs, () => publish(load, send)),
  close: async () => {
    await runner?.stop()
    await sender?.release()
  },
}

function send(numbers: readonly number[]): unknown {
  const [n = 0] = numbers
  if (numbers.length === 1) return sender?.addJob('bench', jobData(n))
  return sender?.addJobs(numbers.map((each) => ({ identifier: 'bench', payload: jobData(each) })))
}

serve(commands)
