// An application with a handler that kills the process for one event. It ends when every delivery has ended, and then
// tells what became of them.
import { openPosthorn } from '../../src/index.ts'

const [, , file, events, poison] = process.argv

const posthorn = await openPosthorn({ database: `sqlite:${file}` })
const left = async () => {
  const waiting = await posthorn.deliveries.list({ status: 'pending', limit: 1 })
  const running = await posthorn.deliveries.list({ status: 'processing', limit: 1 })
  return waiting.items.length + running.items.length
}
const { promise: done, resolve } = Promise.withResolvers<void>()
const look = async () => {
  if ((await left()) === 0) resolve()
}
posthorn.on('*', () => void look())

posthorn.handle(
  'job',
  async (event) => {
    if (event.data.n === Number(poison)) process.kill(process.pid, 'SIGKILL')
    // The others are in flight together with it.
    await new Promise((next) => setImmediate(next))
  },
  { concurrency: 8 },
)
const inputs = Array.from({ length: Number(events) }, (_, n) => ({ type: 'job', data: { n } }))
await posthorn.sendBatch(inputs)
await look()
await done
const { items } = await posthorn.deliveries.list({ limit: 500 })
const told = items.map(async ({ eventId, status, reason, attempts }) => {
  const event = await posthorn.events.get(eventId)
  const { data } = JSON.parse(Buffer.from(event?.body ?? []).toString())
  return { status, reason, attempts, n: data.n }
})
process.stdout.write(JSON.stringify(await Promise.all(told)))
await posthorn.close()
