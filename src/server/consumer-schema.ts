import { z } from 'zod'
import { type ConsumerSettings, consumerDefaults, consumerOrderings, whenDependencyOpen } from '../core/consumer.ts'
import type { RetryPolicy } from '../core/retry-policy.ts'
import { type Presets, retrySchema } from './retry-schema.ts'
import { checkedText, choice, closedObject, duration, numberBetween, says, textUpTo, wholeNumber } from './schemas.ts'

const secondMs = 1_000
const minuteMs = 60 * secondMs
const nameLengthMax = 200
const topicPattern = /^[\w.-]{1,249}$/
const dayMs = 86_400 * secondMs

const topicName = checkedText((text) =>
  topicPattern.test(text) ? null : 'must be a topic: 1 to 249 letters, digits, dots, _ or -',
)
const named = checkedText((text) =>
  text.trim() === text && text !== '' && text.length <= nameLengthMax
    ? null
    : `must have 1 to ${nameLengthMax} characters, and no space around them`,
)

/** The parameters of the retry design under their own names; each has its own default. */
const plainRetry = {
  maxRetries: wholeNumber(1, 1_000).optional(),
  retryBackoffMs: wholeNumber(0, dayMs).optional(),
  exponentialBackoff: z.boolean({ error: says('must be true or false') }).optional(),
  maxRetryBackoffMs: wholeNumber(0, dayMs).optional(),
  retryJitterMs: wholeNumber(0, dayMs).optional(),
}

/** What a program says of a consumer. */
export function consumerSchema(presets: Presets) {
  return closedObject(
    {
      name: named.optional(),
      topics: z.union([topicName.transform((topic) => [topic]), z.array(topicName).min(1).max(100)], {
        error: says('must be a topic, or a list of 1 to 100 topics'),
      }),
      group: named,
      ordering: choice(consumerOrderings).optional(),
      concurrency: wholeNumber(1, 10_000).optional(),
      timeout: duration(10, 60 * minuteMs).optional(),
      retry: retrySchema(presets).optional(),
      dlq: z.union([z.literal('topic'), z.literal(false)], { error: says("must be 'topic' or false") }).optional(),
      dlqEnabled: z.boolean({ error: says('must be true or false') }).optional(),
      dlqTopicSuffix: checkedText((text) =>
        topicPattern.test(text) ? null : 'must fit into the name of a topic',
      ).optional(),
      dedup: z
        .union([z.literal(false), choice(['key', 'offset']), closedObject({ header: textUpTo(nameLengthMax) })], {
          error: says("must be 'key', 'offset', { header: … } or false"),
        })
        .optional(),
      whenOpen: choice(whenDependencyOpen).optional(),
      budget: z
        .union([z.literal(false), closedObject({ share: numberBetween(0.001, 1), window: wholeNumber(2, 100_000) })], {
          error: says('must be false, or { share: 0.5, window: 200 }'),
        })
        .optional(),
      protocol: choice(['classic', 'consumer']).optional(),
      start: choice(['earliest', 'latest']).optional(),
      engine: choice(['async', 'process']).optional(),
      workers: wholeNumber(1, 64).optional(),
      export: textUpTo(nameLengthMax).optional(),
      ...plainRetry,
    },
    'an option of a consumer',
  ).superRefine((wish, context) => {
    const given = Object.keys(plainRetry).filter((name) => wish[name as keyof typeof plainRetry] !== undefined)
    if (wish.retry !== undefined && given.length > 0) {
      context.addIssue({
        code: 'custom',
        path: ['retry'],
        message: `cannot be given together with ${given.join(', ')}`,
      })
    }
    if (wish.dlq !== undefined && wish.dlqEnabled !== undefined) {
      context.addIssue({ code: 'custom', path: ['dlqEnabled'], message: 'cannot be given together with dlq' })
    }
  })
}

export type ConsumerWish = z.output<ReturnType<typeof consumerSchema>>

export function consumerSettings(wish: ConsumerWish, dlqTopicSuffix: string): ConsumerSettings {
  return {
    ...consumerDefaults,
    name: wish.name ?? wish.group,
    topics: wish.topics,
    group: wish.group,
    ordering: wish.ordering ?? consumerDefaults.ordering,
    concurrency: wish.concurrency ?? consumerDefaults.concurrency,
    timeoutMs: wish.timeout ?? consumerDefaults.timeoutMs,
    retry: wish.retry ?? plainPolicy(wish),
    dlq: wish.dlq ?? (wish.dlqEnabled === false ? false : consumerDefaults.dlq),
    dlqTopicSuffix: wish.dlqTopicSuffix ?? dlqTopicSuffix,
    whenOpen: wish.whenOpen ?? consumerDefaults.whenOpen,
    budget: wish.budget === false ? null : (wish.budget ?? consumerDefaults.budget),
  }
}

function plainPolicy({
  maxRetries = 3,
  retryBackoffMs = 1_000,
  exponentialBackoff = true,
  maxRetryBackoffMs = 30_000,
  retryJitterMs = 200,
}: ConsumerWish): RetryPolicy {
  return {
    preset: null,
    strategy: 'exponential',
    baseDelayMs: retryBackoffMs,
    multiplier: exponentialBackoff ? 2 : 1,
    maxDelayMs: maxRetryBackoffMs,
    jitter: { kind: 'added', maxMs: retryJitterMs },
    maxAttempts: maxRetries,
    maxAgeMs: null,
  }
}
