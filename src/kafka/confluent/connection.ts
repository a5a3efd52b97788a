import { PosthornError } from '../../core/errors.ts'
import type { ConnectionOptions } from '../driver.ts'
import { KafkaError } from '../kafka-error.ts'
import type { NativeError } from './native.ts'
import { kafkaError, reported } from './problems.ts'

export const answerMsMaxDefault = 10_000

interface Connectable {
  connect(options: Readonly<{ timeout: number }>, callback: (error: NativeError | null | undefined) => void): void
  disconnect(callback: () => void): void
  on(event: 'event.error', listener: (error: NativeError) => void): void
}

/**
 * Resolves when a broker has answered. The client itself would only say that time is up; what it reported meanwhile is the
 * reason. A password that is wrong stays wrong, so that is not waited for.
 */
export async function connect(client: Connectable, options: ConnectionOptions): Promise<void> {
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
  try {
    await Promise.race([answered.promise, refused.promise])
    isOpen = true
  } catch (error) {
    // It disconnects by itself when it gives up.
    await answered.promise.catch(() => {})
    throw connectionError(options.brokers, reason ?? kafkaError('It does not open', error as NativeError))
  }
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
