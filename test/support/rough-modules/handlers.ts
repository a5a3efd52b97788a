import { spawn } from 'node:child_process'
import { EventEmitter } from 'node:events'
import type { Handler } from '../../../src/engines/engine.ts'

// Handlers that do to their process what it can take, and more. Those that report wait for the answer.

type Data = Readonly<{ to: string; code: number; signal: string; bytes: number }>
type Of<Fields extends keyof Data> = Readonly<{ data: Pick<Data, Fields> }>

async function report(to: string, text: string): Promise<void> {
  const response = await fetch(to, { method: 'POST', body: text })
  await response.text()
}

export const returns: Handler = () => {}

/** Says its process id and ends when it is answered. */
export const waits: Handler = ({ data }: Of<'to'>) => report(data.to, String(process.pid))

export const obeys: Handler = async ({ data }: Of<'to'>, { signal }) => {
  const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve))
  await report(data.to, String(process.pid))
  await aborted
}

/** Says that it has begun on stdout: its parent need do nothing more for it to end. */
export const endsSoon: Handler = async () => {
  console.log('begun')
  await new Promise((resolve) => setTimeout(resolve, 50))
}

export const exits: Handler = ({ data }: Of<'code'>) => process.exit(data.code)

export const isKilled: Handler = async ({ data }: Of<'signal'>) => {
  process.kill(process.pid, data.signal)
  await new Promise(() => {})
}

export const aborts: Handler = () => process.abort()

export const fillsTheHeap: Handler = () => {
  const kept: object[] = []
  for (;;) kept.push(Array.from({ length: 10_000 }, (_, at) => ({ at })))
}

export const throwsInATimer: Handler = () => {
  setTimeout(() => {
    throw new TypeError('from a timer')
  }, 1)
  return new Promise(() => {})
}

export const rejectsUnheard: Handler = () => {
  Promise.reject(new TypeError('from a promise'))
  return new Promise(() => {})
}

export const emitsAnError: Handler = () => {
  setImmediate(() => new EventEmitter().emit('error', new TypeError('from an emitter')))
  return new Promise(() => {})
}

export const exitsAfterReturning: Handler = () => {
  setImmediate(() => process.exit(7))
}

/** Returns, and throws when it is answered. */
export const throwsAfterReturning: Handler = ({ data }: Of<'to'>) => {
  report(data.to, String(process.pid)).then(() => {
    throw new TypeError('far too late')
  })
}

export const returnsSomethingUncloneable: Handler = () => ({ socket: process.stdout, call: () => {} })

export const throwsSomethingUncloneable: Handler = () => {
  throw Object.assign(new Error('with a function'), { call: () => {} })
}

export const spins: Handler = async ({ data }: Of<'to'>) => {
  await report(data.to, String(process.pid))
  for (;;);
}

export const trapsSignals: Handler = async ({ data }: Of<'to'>) => {
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => {})
  await report(data.to, String(process.pid))
  await new Promise(() => {})
}

/** Leaves behind a process that holds its output open: in its group, and in a group of its own. */
export const startsOthers: Handler = async ({ data }: Of<'to'>) => {
  const own = spawn('sleep', ['600'], { stdio: 'inherit' })
  const detached = spawn('sleep', ['600'], { stdio: 'inherit', detached: true })
  await report(data.to, JSON.stringify([own.pid, detached.pid]))
  process.exit(3)
}

/** Returns, and leaves a process behind whose id it prints. */
export const leavesAProcess: Handler = () => {
  const left = spawn('sleep', ['600'], { stdio: 'ignore' })
  left.unref()
  console.log(left.pid)
}

/** Cuts itself off from its parent, and stays. */
export const closesItsChannel: Handler = async () => {
  process.removeAllListeners('disconnect')
  const { _disconnect: disconnect } = process as { _disconnect?: () => void }
  disconnect?.call(process)
  await new Promise((resolve) => setTimeout(resolve, 600_000))
}

export const disconnects: Handler = async () => {
  process.disconnect?.()
  await new Promise(() => {})
}

export const printsAFatalLine: Handler = () => {
  console.error('FATAL ERROR: caught by somebody')
}

export const printsWithoutEnd: Handler = ({ data }: Of<'bytes'>) => {
  process.stdout.write('x'.repeat(data.bytes))
  process.stderr.write('y'.repeat(data.bytes))
}

export const prints: Handler = () => {
  console.log('one\n\ntwo')
  console.error('three')
  process.stdout.write('four')
}

/** With the function that Node itself uses: the usual one is hidden. */
export const sendsMessages: Handler = async () => {
  if (process.send !== undefined) throw new Error('a handler can send messages')
  const { _send: send } = process as { _send?: (message: unknown) => void }
  for (const message of [null, 7, 'ready', {}, { kind: 'ended', job: 1 }, { posthorn: 1, kind: 'other', job: 1 }]) {
    send?.call(process, message)
  }
  throw new Error('it was sent all that')
}

export const tellsItsFlags: Handler = () => {
  throw new Error(JSON.stringify([process.execArgv, process.env.NODE_OPTIONS ?? null]))
}
