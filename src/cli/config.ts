import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { pageOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { type Column, type Format, ListPrinter, type Row, textOf, withFormat } from './output.ts'
import type { Terminal } from './terminal.ts'

type ShowOptions = Readonly<{ output: Format; server?: boolean }>

const columns: readonly Column[] = [
  { title: 'NAME', show: ({ name }) => textOf(name), min: 24 },
  { title: 'VALUE', show: ({ value }) => textOf(value), min: 24 },
  { title: 'ORIGIN', show: ({ origin }) => textOf(origin), colour: colourOf },
  { title: 'ENVIRONMENT', show: ({ env }) => textOf(env), min: 36 },
]

export function addConfig(program: Command, terminal: Terminal): void {
  const config = program.command('config').description('see the configuration')
  const show = config
    .command('show')
    .description('every setting, its value and where the value comes from, as a server started here would have it')
  withFormat(withConfigFlags(show))
    .option('--server', 'the settings that the running server has, instead of those of this shell')
    .action((options: ShowOptions) => showConfig(options, terminal))
}

async function showConfig({ output, server = false, ...flags }: ShowOptions, terminal: Terminal): Promise<void> {
  const printer = new ListPrinter(terminal, output, columns)
  if (server) {
    const client = new ApiClient(clientSettings(terminal.env))
    printer.add(pageOf(await client.get('/v1/config')).items)
    printer.end('')
    return
  }
  const config = await configFrom(flags as ConfigFlags, terminal)
  const { describeConfig } = await import('../config.ts')
  printer.add(describeConfig(config))
  printer.end('')
  terminal.say('Settings of this shell; for a running server: posthorn config show --server')
}

function colourOf({ origin }: Row): 'dim' | null {
  return origin === 'default' ? 'dim' : null
}
