import type { Thrown } from '../core/handler-errors.ts'
import type { Death } from '../core/worker-death.ts'

/** What a handler is given: the event as its sender made it. */
export interface HandledEvent {
  readonly id: string
  readonly type: string
  readonly key: string | null
  readonly tenant: string
  /** The value of `body` if its content type says JSON, read when it is asked for; else undefined. */
  // biome-ignore lint/suspicious/noExplicitAny: what a sender sends has the type that the handler expects of it
  readonly data: any
  /** The sender's bytes, without an envelope. */
  readonly body: Uint8Array
  readonly contentType: string
  /** The event's own headers, and those that a source kept of the request that brought it. */
  readonly headers: Readonly<Record<string, string>>
  readonly receivedAt: Date
}

/** What a handler knows of the try that it is. */
export interface HandlerContext {
  /** Aborts at the deadline of the try, and when Posthorn stops. */
  readonly signal: AbortSignal
  /** The number of this try, from 1. */
  readonly attempt: number
  readonly deliveryId: string
}

/** Code that processes events. What it returns is not looked at; when it throws, the event is tried again. */
export type Handler = (event: HandledEvent, context: HandlerContext) => unknown

/** What a consumer's handler is given: a Kafka record as it is in its topic. */
export interface HandledRecord {
  readonly topic: string
  readonly partition: number
  readonly offset: number
  readonly key: Uint8Array | null
  /** null: a tombstone. */
  readonly value: Uint8Array | null
  /** In their order; a name may occur several times. */
  readonly headers: readonly (readonly [name: string, value: Uint8Array])[]
  readonly timestamp: Date | null
  /** The value, read as JSON. A value that is not JSON makes the record a dead letter. */
  // biome-ignore lint/suspicious/noExplicitAny: what a producer sends has the type that the handler expects of it
  json(): any
}

/** What a consumer's handler knows of the attempt that it is. */
export interface RecordContext {
  /** Aborts at the deadline of the attempt, when Posthorn stops, and when the partition has gone to another process. */
  readonly signal: AbortSignal
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** The name of the consumer. */
  readonly consumer: string
}

/** Code that processes records. What it returns is not looked at; when it throws, the record is tried again. */
export type RecordHandler = (record: HandledRecord, context: RecordContext) => unknown

/** An export of a module, by the module's URL. Any process can import it, which a function does not allow. */
export type ModuleCode = Readonly<{ module: string; export: string }>

/** What a task runs. */
export type Code = Handler | RecordHandler | ModuleCode

/** An event as plain data, without its bytes. */
export type EventFacts = Readonly<{
  id: string
  type: string
  key: string | null
  tenant: string
  contentType: string
  /** The event's own headers over those that a source kept. */
  headers: Readonly<Record<string, string>>
  /** Epoch milliseconds. */
  receivedAt: number
}>

/** A Kafka record as plain data, without the bytes of its value. */
export type RecordFacts = Readonly<{
  topic: string
  partition: number
  offset: number
  key: Uint8Array | null
  isTombstone: boolean
  headers: readonly (readonly [name: string, value: Uint8Array])[]
  /** Epoch milliseconds. */
  timestamp: number | null
}>

/** What is to be processed. */
export type Subject = Readonly<{ event: EventFacts }> | Readonly<{ record: RecordFacts }>

/**
 * One try of a handler, as plain data: all of it but a function can be sent to another process. The engine makes of it
 * what the handler sees.
 */
export type Task = Subject & TaskRules

export type TaskRules = Readonly<{
  /** The name that the handler is registered by. */
  name: string
  code: Code
  /** The sender's bytes. Others may hold the same ones: the handler gets a copy. */
  bytes: Uint8Array
  /** The number of this try, from 1. */
  attempt: number
  /** The id of the delivery, or where the record stands. */
  ref: string
  timeoutMs: number
}>

export type Run =
  | Readonly<{ kind: 'returned' }>
  | Readonly<{ kind: 'threw'; thrown: Thrown }>
  /** It had not settled at its deadline. `settled` resolves when it has, however late, and never rejects. */
  | Readonly<{ kind: 'overran'; settled: Promise<void> }>
  /** The process that ran it ended. Only an engine with other processes answers this. */
  | Readonly<{ kind: 'died'; death: Death }>
  /** We ended the run ourselves. */
  | Readonly<{ kind: 'interrupted' }>

/** Whether code can be used, and the URLs of the files that it was loaded from, as far as the engine knows them. */
export type Loaded = Readonly<{ thrown: Thrown | null; files: readonly string[] }>

/**
 * How handlers run. An engine runs one try and retries nothing: waiting, order and counting are the loop's.
 */
export interface Engine {
  /**
   * Runs one try. Resolves within `timeoutMs` (once the event loop gets to it), whatever the handler does, and never
   * rejects: code that cannot be imported is a run that threw. Aborting `signal` resolves it at once, as interrupted;
   * with a signal that is aborted already, the handler does not begin. Runs may share a signal. In an engine with
   * processes, `timeoutMs` begins when the handler does: waiting for a free process and loading the code come before.
   */
  run(task: Task, signal: AbortSignal): Promise<Run>

  /** Loads code before it is needed, to see whether it can be. Never rejects. */
  load(code: Code): Promise<Loaded>

  /** Lets go of everything. May be called twice and never throws. */
  stop(): Promise<void>
}

/** An engine that only one handler uses. */
export interface OwnEngine extends Engine {
  /** Takes no further run, and stops when the last one under way has ended. */
  retire(): void
}

/** What a registration chooses from. */
export interface Engines {
  /** Runs code in this process; all handlers share it. */
  readonly async: Engine
  /** An engine with up to `workers` processes for the handler of this name. */
  openProcesses(name: string, workers: number): OwnEngine
}
