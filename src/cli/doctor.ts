import type { Command } from 'commander'
import type { Config } from '../config.ts'
import type { Check } from '../store/database.ts'
import { clientSettings } from './client-settings.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { checkClock, checkPorts, checkRedis, checkServer } from './doctor-checks.ts'
import { CommandFailed } from './failure.ts'
import { nodeProblem } from './node-version.ts'
import { type Column, counted, type Format, ListPrinter, withFormat } from './output.ts'
import type { Colour, Terminal } from './terminal.ts'

type DoctorOptions = Readonly<{ output: Format }>

const colours: Readonly<Record<Check['status'], Colour>> = { ok: 'green', warn: 'yellow', fail: 'red' }
const columns: readonly Column[] = []

export function addDoctor(program: Command, terminal: Terminal): void {
  const doctor = program
    .command('doctor')
    .description('look at clock, disk, files, ports, configuration, server and delivery, and say what to do')
    .addHelpText(
      'after',
      '\nChanges nothing. Exit code 1 when a check failed, deliveries in trouble included; a warning is no failure.',
    )
  withFormat(withConfigFlags(doctor)).action((options: DoctorOptions) => examine(options, terminal))
}

async function examine({ output, ...flags }: DoctorOptions, terminal: Terminal): Promise<void> {
  const printer = output === 'table' ? null : new ListPrinter(terminal, output, columns)
  const found: Check[] = []
  const tell = (checks: readonly Check[]): void => {
    found.push(...checks)
    if (printer === null) for (const check of checks) print(terminal, check)
    else printer.add(checks)
  }
  const { version } = await import('../app.ts')
  const { databaseAt } = await import('../store/open-store.ts')
  tell([checkVersions(version)])
  const config = await checkConfig(flags as ConfigFlags, terminal, tell)
  const server = await checkServer(serverMeant(config, terminal), version)
  tell([checkClock(Date.now(), server.dateAt)])
  if (config !== null) {
    const database = databaseAt(config)
    tell(await database.check())
    tell(await checkRedis(config))
    tell(await checkPorts(config, server.isUp))
    if (!server.isUp) tell(await database.checkDelivery(Date.now()))
  }
  tell(server.checks)
  printer?.end('')
  const failed = found.filter(({ status }) => status === 'fail').length
  const warned = found.filter(({ status }) => status === 'warn').length
  if (failed > 0) throw new CommandFailed(`${counted(failed, 'check')} of ${found.length} failed`)
  terminal.say(warned === 0 ? 'all is well' : `nothing failed, and there is ${counted(warned, 'warning')}`)
}

/** Where this configuration listens, if it was said where that is; else the server that all commands speak to. */
function serverMeant(config: Config | null, { env }: Terminal): ReturnType<typeof clientSettings> {
  const settings = clientSettings(env)
  const isSaid = config !== null && (config.given.port.origin === 'flag' || config.given.host.origin === 'flag')
  if (!isSaid || config.port === 0) return settings
  const host = config.host.includes(':') ? `[${config.host}]` : config.host
  return { ...settings, url: `http://${host}:${config.port}` }
}

function print(terminal: Terminal, { check, status, found, advice }: Check): void {
  terminal.print(`${terminal.paint(colours[status], status.padEnd(4))}  ${check.padEnd(16)} ${found}`)
  if (advice !== null) terminal.print(`${' '.repeat(23)}${terminal.paint('bold', '→')} ${advice}`)
}

function checkVersions(version: string): Check {
  const { node, sqlite = 'unknown' } = process.versions
  const problem = nodeProblem(node)
  const found = `Posthorn ${version}, Node ${node}, SQLite ${sqlite}, ${process.platform} ${process.arch}`
  return problem === null
    ? { check: 'versions', status: 'ok', found, advice: null }
    : { check: 'versions', status: 'fail', found, advice: problem }
}

/** With a wrong configuration the rest can still be looked at, as far as it needs none. */
async function checkConfig(
  flags: ConfigFlags,
  terminal: Terminal,
  tell: (checks: readonly Check[]) => void,
): Promise<Config | null> {
  try {
    const config = await configFrom(flags, terminal)
    const set = Object.values(config.given).filter(({ origin }) => origin !== 'default').length
    tell([
      { check: 'configuration', status: 'ok', found: `${counted(set, 'setting')} not at the default`, advice: null },
      { check: 'private ranges', status: 'ok', found: privateRanges(config), advice: null },
    ])
    return config
  } catch (error) {
    const [found = '', ...problems] = (error instanceof Error ? error.message : String(error)).split('\n')
    tell([{ check: 'configuration', status: 'fail', found, advice: problems.map((line) => line.trim()).join('; ') }])
    return null
  }
}

/** Which private addresses endpoints may have, and who said so. */
function privateRanges({ allowPrivate, apiKey, given }: Config): string {
  const origin = given.allowPrivate.origin
  const why = origin === 'default' ? `the default ${apiKey === null ? 'without' : 'with'} an API key` : `by ${origin}`
  return `endpoints may use ${allowPrivate.join(', ') || 'no private addresses'} (${why})`
}
