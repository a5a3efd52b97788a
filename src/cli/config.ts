import type { Command } from 'commander'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { type Column, type Format, ListPrinter, type Row, textOf, withFormat } from './output.ts'
import type { Terminal } from './terminal.ts'

type ShowOptions = Readonly<{ output: Format }>

const columns: readonly Column[] = [
  { title: 'NAME', show: ({ name }) => textOf(name) },
  { title: 'VALUE', show: ({ value }) => textOf(value) },
  { title: 'ORIGIN', show: ({ origin }) => textOf(origin), colour: colourOf },
  { title: 'ENVIRONMENT', show: ({ env }) => textOf(env) },
]

export function addConfig(program: Command, terminal: Terminal): void {
  const config = program.command('config').description('see the configuration')
  const show = config.command('show').description('every setting, its value and where the value comes from')
  withFormat(withConfigFlags(show)).action((options: ShowOptions) => showConfig(options, terminal))
}

async function showConfig({ output, ...flags }: ShowOptions, terminal: Terminal): Promise<void> {
  const config = await configFrom(flags as ConfigFlags, terminal)
  const { describeConfig } = await import('../config.ts')
  const printer = new ListPrinter(terminal, output, columns)
  printer.add(describeConfig(config))
  printer.end('')
}

function colourOf({ origin }: Row): 'dim' | null {
  return origin === 'default' ? 'dim' : null
}
