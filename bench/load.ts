// The load generator, a process of its own: events over raw sockets with requests made once and patched in place.
// Closed loop: each connection sends its next event when the last one was answered. Open loop: events are due at a
// fixed rate whatever the answers do, and an event that finds no free connection waits, its clock running.
import type { Buffer } from 'node:buffer'
import { connect, type Socket } from 'node:net'
import { nowUs } from './clock.ts'
import { type Dress, EventRequest, MessageReader, statusOf } from './http-bytes.ts'
import { serve } from './ipc.ts'

export type LoadRequest = Readonly<{
  /** The connections are spread over them. */
  urls: readonly string[]
  type: string
  dress: Dress
  connections: number
  /** Events `first` to `first + count - 1`. */
  first: number
  count: number
  loop:
    | Readonly<{ kind: 'closed'; thinkMs: number; durationMsMax: number | null }>
    | Readonly<{ kind: 'open'; perSecond: number }>
  timeoutMs: number
}>

export type LoadReport = Readonly<{
  sent: number
  acked: number
  /** Answers that were not 2xx, by status. */
  refused: Readonly<Record<string, number>>
  startedAtUs: number
  endedAtUs: number
  cpuUs: number
  /** By event index of the run; 0 for what was not sent or not acknowledged with a 2xx. */
  sentAtUs: Float64Array
  ackedAtUs: Float64Array
  /** Open loop: how late the generator itself was, which is nobody else's fault. */
  lagUs: Float64Array
}>

export type LoadCommands = Readonly<{ run: (request: LoadRequest) => Promise<LoadReport> }>

class Connection {
  readonly #socket: Socket
  readonly #request: EventRequest
  #index = -1

  constructor(socket: Socket, request: EventRequest, answered: (connection: Connection, status: number) => void) {
    this.#socket = socket
    this.#request = request
    const reader = new MessageReader((head) => answered(this, statusOf(head)))
    socket.on('data', (chunk: Buffer) => reader.push(chunk))
  }

  /** The event whose answer came last or is awaited, counted from the first of the run. */
  get index(): number {
    return this.#index
  }

  send(index: number, first: number): void {
    this.#index = index
    this.#socket.write(this.#request.setNumber(first + index))
  }

  close(): void {
    this.#socket.removeAllListeners('close')
    this.#socket.destroy()
  }
}

class Run {
  readonly #request: LoadRequest
  readonly #sentAtUs: Float64Array
  readonly #ackedAtUs: Float64Array
  readonly #lagUs: Float64Array
  readonly #refused: Record<string, number> = {}
  readonly #connections: Connection[] = []
  readonly #free: Connection[] = []
  readonly #queue: number[] = []
  readonly #done = Promise.withResolvers<void>()
  #sent = 0
  #answered = 0
  #due = 0
  #stopSendingAtUs = Number.POSITIVE_INFINITY

  constructor(request: LoadRequest) {
    this.#request = request
    this.#sentAtUs = new Float64Array(request.count)
    this.#ackedAtUs = new Float64Array(request.count)
    this.#lagUs = new Float64Array(request.loop.kind === 'open' ? request.count : 0)
  }

  async run(): Promise<LoadReport> {
    const { count, loop, timeoutMs, connections } = this.#request
    const timer = setTimeout(() => {
      this.#done.reject(new Error(`${this.#answered} of ${count} events were answered within ${timeoutMs} ms`))
    }, timeoutMs)
    let ticker: NodeJS.Timeout | undefined
    // A failure may come while connections are still being opened; it is awaited below.
    this.#done.promise.catch(() => {})
    try {
      for (let i = 0; i < connections; i++) this.#connections.push(await this.#open(i))
      const cpuBefore = process.cpuUsage()
      const startedAtUs = nowUs()
      if (loop.kind === 'closed') this.#startClosed(startedAtUs, loop.durationMsMax)
      else ticker = this.#startOpen(startedAtUs, loop.perSecond)
      await this.#done.promise
      const endedAtUs = nowUs()
      const { user, system } = process.cpuUsage(cpuBefore)
      return this.#report(startedAtUs, endedAtUs, user + system)
    } finally {
      clearTimeout(timer)
      clearInterval(ticker)
      for (const connection of this.#connections) connection.close()
    }
  }

  #open(place: number): Promise<Connection> {
    const { urls } = this.#request
    const url = new URL(urls[place % urls.length] ?? '')
    const { promise, resolve, reject } = Promise.withResolvers<Connection>()
    const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true })
    const fail = (error: Error) => {
      reject(error)
      this.#done.reject(error)
    }
    socket.on('error', fail)
    socket.on('close', () => fail(new Error(`the server closed a connection after ${this.#answered} answers`)))
    socket.on('connect', () => {
      const events = new EventRequest(url, this.#request.type, this.#request.dress)
      resolve(new Connection(socket, events, (connection, status) => this.#take(connection, status)))
    })
    return promise
  }

  #startClosed(startedAtUs: number, durationMsMax: number | null): void {
    if (durationMsMax !== null) this.#stopSendingAtUs = startedAtUs + durationMsMax * 1000
    for (const connection of this.#connections) this.#sendNext(connection)
  }

  #startOpen(startedAtUs: number, perSecond: number): NodeJS.Timeout {
    const everyUs = 1_000_000 / perSecond
    this.#free.push(...this.#connections)
    return setInterval(() => {
      for (let now = nowUs(); this.#due < this.#request.count; this.#due += 1) {
        const dueAtUs = startedAtUs + this.#due * everyUs
        if (dueAtUs > now) break
        now = nowUs()
        this.#lagUs[this.#due] = now - dueAtUs
        this.#sentAtUs[this.#due] = now
        this.#queue.push(this.#due)
        this.#sendQueued()
      }
    }, 1)
  }

  #sendNext(connection: Connection): void {
    const index = this.#sent
    if (index >= this.#request.count || nowUs() >= this.#stopSendingAtUs) {
      if (this.#answered === this.#sent) this.#done.resolve()
      return
    }
    this.#sent += 1
    this.#sentAtUs[index] = nowUs()
    connection.send(index, this.#request.first)
  }

  #sendQueued(): void {
    while (this.#queue.length > 0) {
      // The one that rested longest: none is idle for so long that the server would close it.
      const connection = this.#free.shift()
      if (connection === undefined) return
      this.#sent += 1
      connection.send(this.#queue.shift() ?? 0, this.#request.first)
    }
  }

  #take(connection: Connection, status: number): void {
    if (status === 100) return
    if (status >= 200 && status < 300) this.#ackedAtUs[connection.index] = nowUs()
    else this.#refused[status] = (this.#refused[status] ?? 0) + 1
    this.#answered += 1
    const { loop, count } = this.#request
    if (loop.kind === 'open') {
      this.#free.push(connection)
      this.#sendQueued()
      if (this.#answered === count) this.#done.resolve()
    } else if (loop.thinkMs > 0) setTimeout(() => this.#sendNext(connection), loop.thinkMs)
    else this.#sendNext(connection)
  }

  #report(startedAtUs: number, endedAtUs: number, cpuUs: number): LoadReport {
    const refusals = Object.values(this.#refused).reduce((sum, count) => sum + count, 0)
    return {
      sent: this.#sent,
      acked: this.#answered - refusals,
      refused: this.#refused,
      startedAtUs,
      endedAtUs,
      cpuUs,
      sentAtUs: this.#sentAtUs,
      ackedAtUs: this.#ackedAtUs,
      lagUs: this.#lagUs,
    }
  }
}

const commands: LoadCommands = { run: (request) => new Run(request).run() }

serve(commands)
