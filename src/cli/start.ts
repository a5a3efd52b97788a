import type { Command } from 'commander'
import type { Pipeline } from '../app.ts'
import { saveCompiled } from './compile-cache.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { UsageError } from './failure.ts'
import { untilStopped } from './signals.ts'
import type { Terminal } from './terminal.ts'

type StartFlags = ConfigFlags & { watch?: boolean }

export function addStart(program: Command, terminal: Terminal): void {
  const start = program.command('start').description('run the server')
  withConfigFlags(start)
    .option('--watch', 'load the handlers again when their file changes')
    .action((flags: StartFlags) => runServer(flags, terminal))
}

async function runServer({ watch = false, ...flags }: StartFlags, terminal: Terminal): Promise<void> {
  const config = await configFrom(flags, terminal)
  if (watch && config.handlers === null) {
    throw new UsageError('--watch needs --handlers: there is nothing else that it could load again.')
  }
  terminal.neverWait()
  // Listening for signals begins before the server does: a stop that comes early is kept until it can be obeyed.
  const stopped = untilStopped(terminal)
  const { openApp } = await import('../app.ts')
  const { databaseAt } = await import('../store/open-store.ts')
  const wasThere = await databaseAt(config).exists()
  let isPaused = false
  const prepare = (pipeline: Pipeline) => {
    isPaused = pipeline.pauseOfAll.paused
    if (config.paused && !wasThere) warnOfNewDatabase(pipeline)
    return runHandlers(pipeline, watch, terminal)
  }
  const app = await openApp(config, { onFatal: () => process.exit(1), prepare })
  terminal.say(`Posthorn listens on ${app.url}`)
  if (config.allowPrivate.length === 0) {
    terminal.say('endpoints on private addresses and on this machine are refused; --allow-private opens ranges')
  }
  if (isPaused) terminal.say('all delivery is paused; when it may begin: posthorn dispatch resume')
  saveCompiled()
  const signal = await stopped
  terminal.say(`${signal}: stopping; once more to leave at once`)
  await app.stop()
}

/** Who starts paused has restored a backup: an empty database means that it lies elsewhere. */
function warnOfNewDatabase({ log, database }: Pipeline): void {
  const advice =
    'There was no database here, so a new one was made. If you restored one, name its file with --database.'
  log.warn({ database: database.name, advice }, 'database.new')
}

async function runHandlers(pipeline: Pipeline, watch: boolean, terminal: Terminal): Promise<void> {
  const { openHandlersModule } = await import('../library/handlers-module.ts')
  await openHandlersModule(pipeline, { watch, say: (line) => terminal.say(line) })
}
