import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { addConfig } from './config.ts'
import { addDeliveries } from './deliveries.ts'
import { addDispatch } from './dispatch.ts'
import { addDoctor } from './doctor.ts'
import { addEndpoints } from './endpoints.ts'
import { addEvents } from './events.ts'
import { describeFailure, exitCodes } from './failure.ts'
import { addMigrate } from './migrate.ts'
import { addSend } from './send.ts'
import { addSink } from './sink.ts'
import { addStart } from './start.ts'
import type { Terminal } from './terminal.ts'
import { addUpkeep } from './upkeep.ts'

const afterHelp = `
Without a command it starts the server. The other commands speak to a running one:
  POSTHORN_URL      where it is (default http://127.0.0.1:4800)
  POSTHORN_API_KEY  its key, if it has one

Data goes to stdout, messages go to stderr.
Exit codes: 0 it worked · 1 it failed · 2 wrong usage or configuration

Try:
  posthorn start --allow-private 127.0.0.1/32
  posthorn sink --port 4900 --script 503x3,200
  posthorn endpoints create http://127.0.0.1:4900/ --types 'order.*'
  posthorn send order.created '{"id":1}' --wait`

/** Runs one command line to its end and answers the exit code. Never throws. */
export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    await buildProgram(terminal).parseAsync(withDefaultCommand(args), { from: 'user' })
    return exitCodes.ok
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const { lines, exitCode, isExpected } = describeFailure(error)
    const [first = '', ...rest] = lines
    terminal.say(`posthorn: ${first}`)
    for (const line of rest) terminal.say(line)
    const wantsStack = terminal.env.POSTHORN_LOG_LEVEL === 'debug' || terminal.env.POSTHORN_LOG_LEVEL === 'trace'
    if (isExpected && wantsStack && error instanceof Error) terminal.say(error.stack ?? '')
    return exitCode
  }
}

/** `posthorn` and `posthorn --port 5000` start the server; a word that is no command stays one, to be refused. */
function withDefaultCommand(args: readonly string[]): readonly string[] {
  const [first] = args
  const isForProgram = first !== undefined && (!first.startsWith('-') || /^(?:-h|--help|-V|--version)$/.test(first))
  return isForProgram ? args : ['start', ...args]
}

function buildProgram(terminal: Terminal): Command {
  const program = new Command('posthorn')
    .description('Accepts events, keeps them, and delivers each one: with retries, order and dead letters.')
    .version(versionOf(), '-V, --version')
    .exitOverride()
    .showHelpAfterError('(add --help to see what is possible)')
    .configureOutput({
      writeOut: (text) => terminal.write(text),
      writeErr: (text) => terminal.say(text.trimEnd().replace(/^error: /, 'posthorn: ')),
    })
    .addHelpText('after', afterHelp)
  for (const add of [
    addStart,
    addSend,
    addEndpoints,
    addEvents,
    addDeliveries,
    addSink,
    addMigrate,
    addConfig,
    addUpkeep,
    addDispatch,
    addDoctor,
  ]) {
    add(program, terminal)
  }
  return program
}

function versionOf(): string {
  const manifest: { version: string } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return manifest.version
}
