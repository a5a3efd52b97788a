import { AsyncLocalStorage } from 'node:async_hooks'
import { registerHooks } from 'node:module'
import { Worker } from 'node:worker_threads'
import { thrownOf } from '../core/handler-errors.ts'
import type { ModuleCode } from './engine.ts'
import { type AnyHandler, handledOf } from './handled.ts'
import { importedHandler } from './module-code.ts'
import { RunContext } from './run-context.ts'
import type { FromWorker, ToWorker } from './worker-messages.ts'

// The program of a worker: runs one handler at a time, as its parent says, and ends with its parent.

const parent = Number(process.argv[2])
const post = process.send?.bind(process)
// The channel is ours: what a handler or a package of its sends there would be taken for an answer. `disconnect` stays,
// because Node calls it when the parent is gone.
Reflect.deleteProperty(process, 'send')

type Current = Readonly<{ job: number; context: RunContext | null }>

let current: Current | null = null
/** Which job a piece of code belongs to, however late it runs. */
const jobs = new AsyncLocalStorage<number>()

// The parent decides when to stop: it lets handlers finish first.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined)
process.on('disconnect', endAll)
process.on('uncaughtException', (error) => {
  const job = jobs.getStore() ?? null
  const isCurrent = job !== null && job === current?.job
  if (isCurrent) current = null
  tell({ kind: 'uncaught', job, thrown: thrownOf(error) }, isCurrent ? endAll : undefined)
})
process.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'load':
      load(message.job, message.code)
      return
    case 'run':
      run(message)
      return
    case 'abort':
      if (current?.job === message.job) current.context?.abort(message.reason)
  }
})

const guard = new Worker(new URL('./worker-guard.ts', import.meta.url), { workerData: parent, execArgv: [] })
guard.on('error', () => undefined)
guard.unref()
tell({ kind: 'ready' })

async function load(job: number, code: ModuleCode): Promise<void> {
  current = { job, context: null }
  const folder = new URL('.', code.module).href
  const files = new Set([code.module])
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context)
      if (found.url.startsWith(folder) && !found.url.includes('/node_modules/')) files.add(found.url)
      return found
    },
  })
  const thrown = await importedHandler(code).then(() => null, thrownOf)
  hooks.deregister()
  end(job, { kind: 'loaded', job, loaded: { thrown, files: [...files] } })
}

async function run({ job, code, task }: Extract<ToWorker, { kind: 'run' }>): Promise<void> {
  const context = new RunContext(task)
  current = { job, context }
  let handler: AnyHandler
  try {
    handler = await importedHandler(code)
  } catch (error) {
    return end(job, { kind: 'loaded', job, loaded: { thrown: thrownOf(error), files: [] } })
  }
  if (context.isAborted) return end(job, { kind: 'ended', job, thrown: null })
  tell({ kind: 'started', job })
  const outcome = jobs.run(job, () => Promise.try(handler, handledOf(task), context))
  end(job, { kind: 'ended', job, thrown: await outcome.then(() => null, thrownOf) })
}

/** Unless it has ended already, by an error that nothing caught. */
function end(job: number, message: Extract<FromWorker, { kind: 'loaded' | 'ended' }>): void {
  if (current?.job !== job) return
  current = null
  tell(message)
}

function tell(message: FromWorker, done?: () => void): void {
  post?.({ ...message, posthorn: 1 }, undefined, undefined, () => done?.())
}

/** With everything that a handler has started: a worker leads a process group of its own. */
function endAll(): void {
  process.kill(-process.pid, 'SIGKILL')
}
