import { KafkaError, type KafkaErrorKind } from '../kafka-error.ts'
import type { NativeError } from './native.ts'

/** The codes of librdkafka (below zero) and of the protocol, by what they mean for us. */
const codes: Readonly<Record<Exclude<KafkaErrorKind, 'refused'>, readonly number[]>> = {
  // Among them: what a broker says while it starts, or while leaders and coordinators move.
  unreachable: [-195, -193, -192, -187, -185, -181, -180, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 56],
  unauthorized: [-169, 29, 30, 31, 33, 34, 53, 58],
  unknown_topic: [-190, -188, -156, 3, 100],
  unknown_group: [-179, 69],
  exists: [36],
  in_use: [68],
  too_large: [4, 10, 12, 18],
  full: [-184],
  lost: [-147, -142, 22, 25, 27, 79, 82, 110, 113],
  fenced: [-150, -144, 47, 59, 90],
  closed: [-197, -172, -152, -151],
}

const kindByCode = new Map(
  Object.entries(codes).flatMap(([kind, list]) => list.map((code) => [code, kind as KafkaErrorKind] as const)),
)

export function kindOf({ code, isFatal }: NativeError): KafkaErrorKind {
  return isFatal === true ? 'fenced' : (kindByCode.get(code) ?? 'refused')
}

/** What the client reports by itself comes without its code. */
const codeByText: Readonly<Record<string, number>> = {
  'all broker connections are down': -187,
  'broker transport failure': -195,
  'host resolution failure': -193,
  'ssl error': -181,
  'timed out': -185,
  'authentication failure': -169,
  'sasl authentication failed': 58,
  'fatal error': -150,
}

export function reported(error: NativeError): KafkaError {
  return kafkaError('Kafka reports a problem', {
    ...error,
    message: error.message,
    code: codeByText[error.message] ?? error.code,
  })
}

/** `what` could not be done, as the start of a sentence. */
export function kafkaError(what: string, cause: NativeError): KafkaError {
  return new KafkaError(kindOf(cause), `${what}: ${cause.message} (code ${cause.code}).`, { cause })
}

/** A call that answers by callback. */
export function asked<T>(
  what: string,
  call: (callback: (error: NativeError | null | undefined, value: T) => void) => void,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  try {
    call((error, value) => (error ? reject(kafkaError(what, error)) : resolve(value)))
  } catch (error) {
    reject(thrown(what, error))
  }
  return promise
}

/** The client throws its own errors, and others when it is disconnected. */
export function thrown(what: string, error: unknown): KafkaError {
  if (error instanceof KafkaError) return error
  const { code, message } = error as Partial<NativeError>
  if (typeof code === 'number') return kafkaError(what, { code, message: String(message) })
  return new KafkaError('closed', `${what}: ${message ?? error}.`, { cause: error })
}
