// The Postgres jobs figure, the other side: pg-boss in this process, which fetches and completes in batches.
import { sleep } from './clock.ts'
import { serve } from './ipc.ts'
import { type JobData, type JobsCommands, jobData, publish, Tally } from './jobs.ts'
import { importPeer } from './peers.ts'

/** As much of pg-boss as the figure needs: it is brought at run time, and its types are not. */
type Boss = {
  start(): Promise<unknown>
  stop(): Promise<void>
  createQueue(name: string): Promise<void>
  send(name: string, data: JobData): Promise<unknown>
  insert(name: string, jobs: readonly { data: JobData }[]): Promise<unknown>
  fetch(name: string, options: { batchSize: number }): Promise<readonly { id: string; data: JobData }[]>
  complete(name: string, ids: readonly string[]): Promise<unknown>
}
type PgBoss = Readonly<{ PgBoss: new (options: object) => Boss }>

const queue = 'bench'
const batchSize = 256
/** While fewer than a batch wait it gathers them: that costs it less than to fetch a few, and no figure looks at latency. */
const gatherMs = 25

let boss: Boss | null = null
let isBusy = false
const tally = new Tally()

const commands: JobsCommands = {
  open: async ({ database }) => {
    const { PgBoss } = (await importPeer('pg-boss')) as PgBoss
    // What it does besides, by the clock, is left out.
    boss = new PgBoss({ connectionString: database, supervise: false, schedule: false })
    await boss.start()
    await boss.createQueue(queue)
  },
  run: async (load) => {
    if (boss === null) throw new Error('it is not open')
    isBusy = true
    const working = work(boss)
    try {
      return await tally.measure(load.jobs, () => publish(load, send))
    } finally {
      isBusy = false
      await working
    }
  },
  close: () => boss?.stop(),
}

async function work(on: Boss): Promise<void> {
  for (;;) {
    const jobs = await on.fetch(queue, { batchSize })
    for (const { data } of jobs) tally.done(data.n)
    if (jobs.length > 0)
      await on.complete(
        queue,
        jobs.map(({ id }) => id),
      )
    else if (!isBusy) return
    if (jobs.length < batchSize) await sleep(gatherMs)
  }
}

function send(numbers: readonly number[]): unknown {
  const [n = 0] = numbers
  if (numbers.length === 1) return boss?.send(queue, jobData(n))
  return boss?.insert(
    queue,
    numbers.map((each) => ({ data: jobData(each) })),
  )
}

serve(commands)
