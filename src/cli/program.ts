import { Command, CommanderError } from 'commander'
import { addBackup } from './backup.ts'
import { addBreakers } from './breakers.ts'
import { addCompletion } from './completion.ts'
import { addConfig } from './config.ts'
import { addConsume } from './consume.ts'
import { addDeliveries } from './deliveries.ts'
import { addDispatch } from './dispatch.ts'
import { addDlq } from './dlq.ts'
import { addDoctor } from './doctor.ts'
import { addEndpoints } from './endpoints.ts'
import { addEvents } from './events.ts'
import { addExamples } from './examples.ts'
import { describeFailure, exitCodes, UsageError } from './failure.ts'
import { addImport } from './import.ts'
import { addKeys } from './keys.ts'
import { addListen } from './listen.ts'
import { addMembers } from './members.ts'
import { addMigrate } from './migrate.ts'
import { addRelay } from './relay.ts'
import { addRelays } from './relays.ts'
import { addReplays } from './replays.ts'
import { addSend } from './send.ts'
import { addSimulate } from './simulate.ts'
import { addSink } from './sink.ts'
import { addSources } from './sources.ts'
import { addStart } from './start.ts'
import { addStatus } from './status.ts'
import { addTail } from './tail.ts'
import { printable, type Terminal } from './terminal.ts'
import { addUpkeep } from './upkeep.ts'
import { versionOf } from './version.ts'

const afterHelp = `
\`posthorn start\` runs the server. Most other commands talk to a running server:
  POSTHORN_URL      where it is (default http://127.0.0.1:4800)
  POSTHORN_API_KEY  its key, if it has one
Both can stand in a file as "url" and "apiKey", named by --config or POSTHORN_CONFIG.

Data goes to stdout, messages go to stderr.
Exit codes: 0 it worked · 1 it failed · 2 wrong usage or configuration
            3 the edge has shut this hub out for good (posthorn relay)
            4 not known yet, some deliveries are still waiting (--follow)

Try:
  posthorn start
  posthorn sink --port 4900 --script 503x3,200
  posthorn endpoints create http://127.0.0.1:4900/ --types 'order.*'
  posthorn send order.created '{"id":1}' --wait`

/** Runs one command line to its end and answers the exit code. Never throws. */
export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    const env: Record<string, string | undefined> = { ...terminal.env }
    let isWide = false
    const program = buildProgram({ ...terminal, env, columns: () => (isWide ? null : terminal.columns()) })
    // The flag wins over the environment; every command finds it in the same place.
    program.hook('preAction', (_, command) => {
      const { config, wide } = command.opts()
      isWide = wide === true
      if (typeof config === 'string') env.POSTHORN_CONFIG = config
    })
    await program.parseAsync(withDefaultCommand(args), { from: 'user' })
    return exitCodes.ok
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    const { lines, exitCode, isExpected } = describeFailure(error)
    const [first = '', ...rest] = lines
    // A server's words are in it, and a server may be anybody's.
    terminal.say(`posthorn: ${printable(first)}`)
    for (const line of rest) terminal.say(printable(line))
    const wantsStack = terminal.env.POSTHORN_LOG_LEVEL === 'debug' || terminal.env.POSTHORN_LOG_LEVEL === 'trace'
    if (isExpected && wantsStack && error instanceof Error) terminal.say(error.stack ?? '')
    return exitCode
  }
}

/** Without a command there is help, and not a server that somebody did not mean to start. */
function withDefaultCommand(args: readonly string[]): readonly string[] {
  const [first] = args
  if (first === undefined) return ['--help']
  const isForProgram = !first.startsWith('-') || /^(?:-h|--help|-V|--version)$/.test(first)
  if (isForProgram) return args
  throw new UsageError(`Name a command before ${first}, such as posthorn start; posthorn --help lists them all.`)
}

/** Every command and option there is. */
export function buildProgram(terminal: Terminal): Command {
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
    addStatus,
    addSend,
    addEndpoints,
    addSources,
    addRelays,
    addEvents,
    addDeliveries,
    addDlq,
    addReplays,
    addBreakers,
    addTail,
    addRelay,
    addListen,
    addConsume,
    addKeys,
    addSink,
    addSimulate,
    addMigrate,
    addImport,
    addConfig,
    addMembers,
    addUpkeep,
    addBackup,
    addDispatch,
    addDoctor,
    addCompletion,
  ]) {
    add(program, terminal)
  }
  addConfigFile(program)
  addExamples(program)
  return program
}

/** Commands that speak to no server. */
const serverless = ['sink', 'completion']

/** Whoever speaks to a server may be told by a file which one. */
function addConfigFile(command: Command): void {
  for (const below of command.commands) addConfigFile(below)
  const hasIt = command.options.some(({ long }) => long === '--config')
  if (command.commands.length > 0 || hasIt || serverless.includes(command.name())) return
  command.option('--config <file>', 'read POSTHORN_URL and POSTHORN_API_KEY from a JSON file ("url", "apiKey")')
}
