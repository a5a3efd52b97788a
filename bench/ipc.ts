import type { ChildProcess } from 'node:child_process'

/** Commands that a child of the bench answers, by name; each takes one argument and may answer later. */
export type Commands = Readonly<Record<string, (argument: never) => unknown>>

type Call = Readonly<{ id: number; name: string; argument: unknown }>
type Answer = Readonly<{ id: number; value?: unknown; error?: string }>

/** In the child: answers calls until the parent goes away, and then ends, so that no child outlives the bench. */
export function serve(commands: Commands): void {
  process.on('message', (message: Call) => {
    void answer(commands, message).then((result) => process.send?.(result))
  })
  process.on('disconnect', () => process.exit(0))
  process.send?.({ id: 0, value: 'ready' } satisfies Answer)
}

async function answer(commands: Commands, { id, name, argument }: Call): Promise<Answer> {
  try {
    const command = commands[name] as ((argument: unknown) => unknown) | undefined
    if (command === undefined) throw new Error(`no command ${name}`)
    return { id, value: await command(argument) }
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : String(error) }
  }
}

type Waiting = Readonly<{ resolve: (value: unknown) => void; reject: (error: Error) => void }>

/** In the parent: the child's commands as calls, each with a limit of time. */
export class Remote<C extends Commands> {
  readonly #child: ChildProcess
  readonly #title: string
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  #ended: Error | null = null

  constructor(child: ChildProcess, title: string) {
    this.#child = child
    this.#title = title
    child.on('message', (message: Answer) => this.#take(message))
    child.on('error', (error) => this.#end(error))
    child.on('exit', (code, signal) => this.#end(new Error(`${title} ended (${signal ?? `exit ${code}`})`)))
  }

  get pid(): number {
    return this.#child.pid ?? -1
  }

  /** Resolves when the child has said that it listens to calls. */
  ready(timeoutMs: number): Promise<void> {
    return this.#wait(0, 'start', timeoutMs).then(() => undefined)
  }

  call<K extends keyof C & string>(
    name: K,
    argument: Parameters<C[K]>[0],
    timeoutMs = 10_000,
  ): Promise<Awaited<ReturnType<C[K]>>> {
    this.#lastId += 1
    const id = this.#lastId
    const answered = this.#wait(id, name, timeoutMs)
    if (this.#ended === null) this.#child.send({ id, name, argument } satisfies Call)
    return answered as Promise<Awaited<ReturnType<C[K]>>>
  }

  #wait(id: number, name: string, timeoutMs: number): Promise<unknown> {
    if (this.#ended !== null) return Promise.reject(this.#ended)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const timer = setTimeout(() => {
      reject(new Error(`${this.#title}: ${name} took longer than ${timeoutMs} ms`))
    }, timeoutMs)
    this.#waiting.set(id, { resolve, reject })
    return promise.finally(() => {
      clearTimeout(timer)
      this.#waiting.delete(id)
    })
  }

  #take({ id, value, error }: Answer): void {
    const waiting = this.#waiting.get(id)
    if (error === undefined) waiting?.resolve(value)
    else waiting?.reject(new Error(`${this.#title}: ${error}`))
  }

  #end(error: Error): void {
    this.#ended ??= error
    for (const waiting of this.#waiting.values()) waiting.reject(error)
  }
}
