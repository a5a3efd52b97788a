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
  ['--allow-private <ranges>', 'private addresses that endpoints may have, such as 127.0.0.1/32,10.0.0.0/8'],
  ['--log-level <level>', 'trace, debug, info, warn, error, fatal or silent (default info)'],
  ['--log-format <format>', 'auto, json or pretty (default auto: pretty on a terminal)'],
  ['--concurrency <n>', 'tries in flight, over all endpoints (default 1000)'],
  ['--event-bytes-max <size>', 'the largest event (default 1MiB)'],
  ['--batch-bytes-max <size>', 'the largest batch (default 16MiB)'],
  ['--intake-bytes-max <size>', 'events that may wait for the disk (default 64MiB)'],
  ['--memory-bytes-max <size>', 'events held for delivery (default 64MiB)'],
  ['--handlers <file>', 'a module of handlers to run inside the server'],
  ['--grace <duration>', 'how long a shutdown waits for tries in flight (default 10s)'],
  ['--retry-base-delay <duration>', 'of the processing preset (default 5s)'],
  ['--retry-max-delay <duration>', 'of the processing preset (default 300s)'],
  ['--max-attempts <n>', 'of the processing preset (default 5)'],
]

export type ConfigFlags = Readonly<Record<string, string | undefined>>

export function withConfigFlags(command: Command): Command {
  command.option('--config <file>', 'read settings from a JSON file')
  for (const [flag, about] of configFlags) command.option(flag, about)
  return command
}

export async function configFrom(flags: ConfigFlags, terminal: Terminal): Promise<Config> {
  const { loadConfig } = await import('../config.ts')
  return loadConfig({ flags, env: terminal.env })
}
