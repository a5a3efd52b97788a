import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import { PosthornError } from '../core/errors.ts'
import type { ConsumerHandle, ConsumerOptions, Consumers } from '../library/consumers.ts'
import { wholeNumber, wordOrJson } from './arguments.ts'
import { saveCompiled } from './compile-cache.ts'
import { type ConfigFlags, configFrom } from './config-flags.ts'
import { UsageError } from './failure.ts'
import { untilStopped } from './signals.ts'
import type { Terminal } from './terminal.ts'

/** Flags that are settings, of which a consumer without a store needs a few. */
const settings = ['config', 'database', 'kafkaBrokers', 'kafkaClient', 'dlqTopicSuffix', 'logLevel', 'logFormat']

type ConsumeFlags = Readonly<Record<string, unknown>> &
  Readonly<{ topic?: readonly string[]; group?: string; handler?: string; from?: string; dlq?: string; dedup?: string }>

const afterHelp = `
The handler is the default export of a module: async (record, { signal, attempt, consumer }) => { … }
Kafka is found by --kafka-brokers or POSTHORN_KAFKA_BROKERS. Breakers and copies are known to all processes that name the
same Postgres database (prepared by "posthorn migrate"); otherwise each process knows its own. No other state is kept.`

export function addConsume(program: Command, terminal: Terminal): void {
  program
    .command('consume')
    .description('run a handler over the records of Kafka topics')
    .option('--topic <topic>', 'a topic to read; may be repeated', several)
    .option('--group <group>', 'the consumer group')
    .option('--handler <file>', 'the module with the handler')
    .option('--name <name>', 'what it is called in logs (default: the group)')
    .option('--export <name>', 'what the module calls the handler (default: default)')
    .option('--engine <engine>', 'async, or process for processes of its own (default async)')
    .option('--workers <n>', 'processes at most, with --engine process (default: as many as cores)', wholeNumber(1, 64))
    .option('--concurrency <attempts>', 'attempts at once (default 16)', wholeNumber(1, 10_000))
    .option('--ordering <ordering>', 'key, partition or none (default key)')
    .option('--timeout <duration>', 'how long an attempt may take (default 30s)')
    .option('--retry <policy>', 'a preset such as consumer, or a policy as JSON (default: kafka)', wordOrJson)
    .option('--max-retries <n>', 'attempts in all (default 3)', wholeNumber(1, 1_000))
    .option('--dlq <target>', 'topic, or off to log and pass what cannot be processed (default topic)')
    .option('--dedup <by>', 'recognise copies for five minutes by key, offset or header:<name> (default: none are)')
    .option('--when-open <what>', 'while a dependency is down: park, skip or fail (default park)')
    .option('--protocol <protocol>', 'classic, or consumer for KIP-848 (default classic)')
    .option('--from <where>', 'earliest or latest, where the group has committed nothing (default earliest)')
    .option('--kafka-brokers <hosts>', 'where Kafka is: host:port, several separated by commas')
    .option(
      '--kafka-client <folder>',
      'where to find @confluentinc/kafka-javascript if it is not installed beside Posthorn',
    )
    .option('--dlq-topic-suffix <text>', 'of topics for dead letters (default .dlq)')
    .option('--database <url>', 'a Postgres database, by which several processes agree on breakers and copies')
    .option('--log-level <level>', 'trace, debug, info, warn, error, fatal or silent (default info)')
    .option('--log-format <format>', 'auto, json or pretty (default auto: pretty on a terminal)')
    .option('--config <file>', 'read settings from a JSON file')
    .addHelpText('after', afterHelp)
    .action((flags: ConsumeFlags) => runConsumer(flags, terminal))
}

function several(text: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, text]
}

async function runConsumer(flags: ConsumeFlags, terminal: Terminal): Promise<void> {
  const options = optionsFrom(flags)
  const config = await configFrom(settingsIn(flags), terminal)
  terminal.neverWait()
  // Listening for signals begins before the consumer does: a stop that comes early is kept until it can be obeyed.
  const stopped = untilStopped(terminal)
  const [{ openConsuming }, library] = await Promise.all([import('../app.ts'), import('../library/consumers.ts')])
  const parts = await openConsuming(config)
  const consumers = new library.Consumers(parts)
  try {
    const consumer = opened(consumers, options)
    await consumer.ready
    terminal.say(`consuming ${[options.topics].flat().join(', ')} as ${options.group}; SIGINT ends it`)
    saveCompiled()
    const signal = await stopped
    terminal.say(`${signal}: finishing what has begun; once more to leave at once`)
  } finally {
    await consumers.stop()
    await parts.close()
  }
}

/** What is wrong with an option is wrong with its flag. */
function opened(consumers: Consumers, options: ConsumerOptions): ConsumerHandle {
  try {
    return consumers.open(options)
  } catch (error) {
    if (error instanceof PosthornError && error.code === 'invalid') throw new UsageError(error.message)
    throw error
  }
}

/** As the library takes them, which checks them. */
function optionsFrom(flags: ConsumeFlags): ConsumerOptions {
  const missing = (['topic', 'group', 'handler'] as const).filter((name) => flags[name] === undefined)
  if (missing.length > 0) throw new UsageError(`consume needs ${missing.map((name) => `--${name}`).join(', ')}.`)
  const { topic: topics, handler = '', from: start, dlq, dedup, ...rest } = flags
  const own = Object.entries(rest).filter(([name]) => !settings.includes(name))
  const given = {
    ...Object.fromEntries(own),
    topics,
    handler: pathToFileURL(path.resolve(handler)),
    start,
    dlq: dlq === 'off' ? false : dlq,
    dedup: dedup?.startsWith('header:') ? { header: dedup.slice('header:'.length) } : dedup,
  }
  // Checked by the library, which names every wrong one.
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as unknown as ConsumerOptions
}

function settingsIn(flags: ConsumeFlags): ConfigFlags {
  const given = settings.flatMap((name) => (typeof flags[name] === 'string' ? [[name, flags[name]] as const] : []))
  return Object.fromEntries(given)
}
