import { PosthornError } from '../../core/errors.ts'
import type { ConnectionOptions } from '../driver.ts'
import { KafkaError } from '../kafka-error.ts'
import type { NativeError } from './native.ts'
import { kafkaError, reported } from './problems.ts'

export const answerMsMaxDefault = 10_000
const serveEveryMs = 50
const disconnectMsMax = 5_000

interface Connectable {
  connect(options: Readonly<{ timeout: number }>, callback: (error: NativeError | null | undefined) => void): void
  disconnect(callback: () => void): void
  on(event: 'event.error', listener: (error: NativeError) => void): void
}

/**
 * Resolves when a broker has answered. The client itself would only say that time is up; what it reported meanwhile is the
 * reason. A password that is wrong stays wrong, so that is not waited for. `serve` lets the client report, where it does
 * not by itself.
 */
export async function connect(client: Connectable, options: ConnectionOptions, serve = () => {}): Promise<void> {
  const refused = Promise.withResolvers<never>()
  const answered = Promise.withResolvers<void>()
  let reason: KafkaError | null = null
  let isOpen = false
  client.on('event.error', (error) => {
    const problem = reported(error)
    if (isOpen) return options.onProblem?.(problem)
    reason = problem
    if (problem.kind === 'unauthorized') refused.reject(problem)
  })
  const timeout = options.answerMsMax ?? answerMsMaxDefault
  client.connect({ timeout }, (error) => (error ? answered.reject(error) : answered.resolve()))
  const serving = setInterval(serve, serveEveryMs)
  try {
    await Promise.race([answered.promise, refused.promise])
    isOpen = true
  } catch (error) {
    // It disconnects by itself when it gives up, which may be later.
    answered.promise.catch(() => {})
    if (error instanceof KafkaError) throw connectionError(options.brokers, error)
    throw connectionError(options.brokers, reason ?? kafkaError('It does not open', error as NativeError))
  } finally {
    clearInterval(serving)
  }
}

/**
 * The client waits for what is under way, such as a commit to a broker that is gone. We do not, for ever: it goes on in the
 * background.
 */
export async function disconnect(start: (done: () => void) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, disconnectMsMax)
  start(resolve)
  await promise
  clearTimeout(timer)
}

function connectionError(brokers: string, cause: KafkaError): Error {
  const { kind, message } = cause
  if (kind === 'unauthorized')
    return new KafkaError(kind, `Kafka at ${brokers} does not let us in. ${message}`, { cause })
  if (kind === 'unreachable')
    return new KafkaError(kind, `No Kafka broker answers at ${brokers}. ${message}`, { cause })
  return notConfigured(cause)
}

/** The client reads its settings when it is made, and once more when it connects. */
export function configured<T>(make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw notConfigured(error)
  }
}

function notConfigured(cause: unknown): Error {
  if (cause instanceof PosthornError) return cause
  return new PosthornError('config_invalid', `Kafka settings: ${(cause as Error).message}`, { cause })
}
