import type { Command } from 'commander'
import { saveCompiled } from './compile-cache.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { untilStopped } from './signals.ts'
import type { Terminal } from './terminal.ts'

export function addStart(program: Command, terminal: Terminal): void {
  const start = program.command('start').description('run the server (also without any command)')
  withConfigFlags(start).action((flags: ConfigFlags) => runServer(flags, terminal))
}

async function runServer(flags: ConfigFlags, terminal: Terminal): Promise<void> {
  const config = await configFrom(flags, terminal)
  // Listening for signals begins before the server does: a stop that comes early is kept until it can be obeyed.
  const stopped = untilStopped(terminal)
  const { openApp } = await import('../app.ts')
  const app = await openApp(config, { onFatal: () => process.exit(1) })
  terminal.say(`Posthorn listens on ${app.url}`)
  if (config.allowPrivate.length === 0) {
    terminal.say('endpoints on this machine are refused; to deliver to a sink here: --allow-private 127.0.0.1/32')
  }
  if (config.paused) terminal.say('all delivery is paused; when it may begin: posthorn dispatch resume')
  saveCompiled()
  const signal = await stopped
  terminal.say(`${signal}: stopping; once more to leave at once`)
  await app.stop()
}
