import type { Command } from 'commander'
import type { Config } from '../config.ts'
import type { Terminal } from './terminal.ts'

// The settings of src/config.ts as flags; a test keeps the two equal. Written out here so that `--help` need not load
// the configuration. Keys have no flag: every process of the machine can read a command line.

type Flag = readonly [flag: string, about: string]

export const configFlags: readonly Flag[] = [
  ['--host <address>', 'address to listen on; any but loopback needs POSTHORN_API_KEY (default 127.0.0.1)'],
  ['--port <n>', 'port to listen on; 0 takes any free one (default 4800)'],
  ['--database <url>', 'where events are kept (default sqlite:./data/posthorn.db)'],
  [
    '--allow-private <ranges>',
    'private ranges that endpoints may use, such as 10.0.0.0/8, or none (default: loopback, if there is no API key)',
  ],
  ['--kafka-brokers <hosts>', 'where consumers find Kafka: host:port, several separated by commas'],
  ['--kafka-client <folder>', 'where to find @confluentinc/kafka-javascript if it is not installed beside Posthorn'],
  ['--dlq-topic-suffix <text>', 'of topics for dead letters (default .dlq)'],
  ['--log-level <level>', 'trace, debug, info, warn, error, fatal or silent (default info)'],
  ['--log-format <format>', 'auto, json or pretty (default auto: pretty on a terminal)'],
  ['--concurrency <n>', 'tries in flight, over all endpoints (default 1000)'],
  ['--event-bytes-max <size>', 'the largest event (default 1MiB)'],
  ['--batch-bytes-max <size>', 'the largest batch (default 16MiB)'],
  ['--intake-bytes-max <size>', 'events that may wait for the disk (default 64MiB)'],
  ['--memory-bytes-max <size>', 'events held for delivery (default 64MiB)'],
  ['--request-bytes-max <size>', 'bodies that are being read (default 64MiB)'],
  ['--connections-max <n>', 'open connections (default 10000)'],
  ['--hops-max <n>', 'Posthorn servers that an event may pass (default 10)'],
  ['--tenant-keys-max <n>', 'API keys of one tenant (default 1000)'],
  ['--tenant-relays-max <n>', 'relays of one tenant (default 1000)'],
  ['--tenant-endpoints-max <n>', 'endpoints of one tenant (default 10000)'],
  ['--tenant-sources-max <n>', 'sources of one tenant (default 1000)'],
  ['--tenant-replays-max <n>', 'running replays of one tenant (default 20)'],
  ['--tenant-streams-max <n>', 'listeners of the stream with keys of one tenant (default 20)'],
  ['--tenant-tests-max <n>', 'endpoint tests at once with keys of one tenant (default 5)'],
  ['--public-port <n>', 'a second port, open to all, for /in/* and hubs alone'],
  ['--public-host <address>', 'where the public port listens (default 0.0.0.0)'],
  ['--handlers <file>', 'a module of handlers to run inside the server'],
  ['--paused [yes|no]', 'take events in and deliver none: for after a restore (default no)'],
  ['--upkeep-every <duration>', 'how often it tidies up (default 1h)'],
  ['--upkeep-after <duration>', 'not before this, after a start (default 10m)'],
  ['--keep-delivered <duration>', 'how long what is delivered is kept, since the delivery (default 7d)'],
  ['--keep-failed <duration>', 'how long what failed is kept, since the last attempt (default 7d)'],
  ['--keep-dead-letter <duration>', 'how long what expired is kept, since the receipt (default 14d)'],
  ['--keep-event <duration>', 'how long an event that went to nobody is kept (default 7d)'],
  ['--keep-replay <duration>', 'how long a replay that has ended is kept (default 30d)'],
  ['--lane-stuck <duration>', 'a lane held for longer is told about (default 15m)'],
  ['--relay-away <duration>', 'a hub that is away for longer is told about (default 5m)'],
  ['--metrics-endpoints-max <n>', 'endpoints with metrics of their own (default 100)'],
  ['--backlog-max <n>', 'more waiting deliveries are told about (default 100000)'],
  ['--grace <duration>', 'how long a shutdown waits for tries in flight (default 10s)'],
  ['--retry-base-delay <duration>', 'of the processing preset (default 5s)'],
  ['--retry-max-delay <duration>', 'of the processing preset (default 300s)'],
  ['--max-attempts <n>', 'of the processing preset (default 5)'],
]

/** `true`: a flag whose value may be left out, as in `--paused`. */
export type ConfigFlags = Readonly<Record<string, string | true | undefined>>

export function withConfigFlags(command: Command): Command {
  command.option('--config <file>', 'read settings from a JSON file')
  for (const [flag, about] of configFlags) command.option(flag, about)
  return command
}

export async function configFrom(flags: ConfigFlags, terminal: Terminal): Promise<Config> {
  const { loadConfig } = await import('../config.ts')
  const said = Object.entries(flags).map(([name, value]) => [name, value === true ? 'yes' : value])
  return loadConfig({ flags: Object.fromEntries(said), env: terminal.env })
}
