/**
 *   unreachable    no broker answers, or none that could: try again later
 *   unauthorized   the broker does not know us, or does not let us do this
 *   unknown_topic  there is no such topic or partition
 *   unknown_group  there is no such consumer group
 *   exists         there is one by that name
 *   in_use         a group with members cannot be deleted
 *   too_large      a message, or the metadata of a commit, is larger than the broker takes
 *   full           more messages wait to be sent than the client keeps: try again later
 *   lost           the partition is not ours, or not any more
 *   fenced         this producer can send nothing more: open another
 *   closed         it was closed
 *   refused        any other answer of the broker
 */
export const kafkaErrorKinds = [
  'unreachable',
  'unauthorized',
  'unknown_topic',
  'unknown_group',
  'exists',
  'in_use',
  'too_large',
  'full',
  'lost',
  'fenced',
  'closed',
  'refused',
] as const
export type KafkaErrorKind = (typeof kafkaErrorKinds)[number]

/** What a Kafka driver throws and reports. The message is a sentence for people. */
export class KafkaError extends Error {
  readonly kind: KafkaErrorKind

  constructor(kind: KafkaErrorKind, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'KafkaError'
    this.kind = kind
  }
}
