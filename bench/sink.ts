// A process of its own that answers 200 to every POST and remembers when each event arrived first. It works on raw
// sockets, so that it is never what limits a run; its own CPU time is in the report, to show it.
import { Buffer } from 'node:buffer'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { nowUs } from './clock.ts'
import { eventIndex, MessageReader } from './http-bytes.ts'
import { serve } from './ipc.ts'

export type SinkReport = Readonly<{
  /** Every request, and how many events of the current run they brought for the first time. */
  requests: number
  distinct: number
  /** Events that came again, and requests that belong to no event of the current run. */
  duplicates: number
  strays: number
  connections: number
  cpuUs: number
}>

export type Arrivals = Readonly<{
  report: SinkReport
  /** By event index of the run, microseconds of the monotonic clock; 0 for what did not arrive. */
  arrivedAtUs: Float64Array
}>

export type SinkCommands = Readonly<{
  listen: (argument: null) => Promise<string>
  /** Begins a run: events `first` to `first + count - 1` are expected. */
  expect: (argument: { first: number; count: number }) => void
  /** Resolves when `distinct` events of the run have arrived, or after the time, whichever is first. */
  arrived: (argument: { distinct: number; timeoutMs: number }) => Promise<SinkReport>
  arrivals: (argument: null) => Arrivals
  report: (argument: null) => SinkReport
}>

const answer = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok')
const refusal = Buffer.from('HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n')

let first = 0
let arrivedAtUs = new Float64Array(0)
let requests = 0
let distinct = 0
let duplicates = 0
let strays = 0
let awaited: { distinct: number; resolve: () => void } | null = null
const sockets = new Set<Socket>()

const server = createServer({ noDelay: true }, (socket) => {
  sockets.add(socket)
  socket.on('close', () => sockets.delete(socket))
  // A client that hangs up is its own business; what it sent is counted.
  socket.on('error', () => socket.destroy())
  const reader = new MessageReader((head, body) => {
    const isPost = head.startsWith('POST ')
    if (isPost) count(eventIndex(body))
    socket.write(isPost ? answer : refusal)
  })
  socket.on('data', (chunk: Buffer) => reader.push(chunk))
})

function count(index: number): void {
  requests += 1
  const at = index - first
  if (at < 0 || at >= arrivedAtUs.length) {
    strays += 1
    return
  }
  if (arrivedAtUs[at] !== 0) {
    duplicates += 1
    return
  }
  arrivedAtUs[at] = nowUs()
  distinct += 1
  if (awaited !== null && distinct >= awaited.distinct) awaited.resolve()
}

function report(): SinkReport {
  const { user, system } = process.cpuUsage()
  return { requests, distinct, duplicates, strays, connections: sockets.size, cpuUs: user + system }
}

async function arrived({ distinct: wanted, timeoutMs }: { distinct: number; timeoutMs: number }): Promise<SinkReport> {
  if (distinct < wanted) {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    awaited = { distinct: wanted, resolve }
    await promise
    clearTimeout(timer)
    awaited = null
  }
  return report()
}

const commands: SinkCommands = {
  listen: () => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', 1024, () => {
      const { port } = server.address() as AddressInfo
      resolve(`http://127.0.0.1:${port}/`)
    })
    return promise
  },
  expect: (run) => {
    first = run.first
    arrivedAtUs = new Float64Array(run.count)
    requests = distinct = duplicates = strays = 0
  },
  arrived,
  arrivals: () => ({ report: report(), arrivedAtUs }),
  report,
}

serve(commands)
