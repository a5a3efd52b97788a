import { type Command, Option } from 'commander'
import { providers } from '../core/source.ts'
import { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { durationText } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import { type Column, type Format, printItem, type Row, tenantColumn, textOf, withFormat } from './output.ts'
import { type SecretFlag, secretFlag, secretFrom, secretFromStdin } from './secret-flag.ts'
import { type SourceFlags, sourceBody, withSourceFlags } from './source-flags.ts'
import type { Terminal } from './terminal.ts'

type Output = Readonly<{ output: Format }>
type Deps = Readonly<{ terminal: Terminal; client: () => ApiClient }>

const idHint = 'src_… or its name'
const secretHint = `the provider's secret; ${secretFromStdin}`

export function addSources(program: Command, terminal: Terminal): void {
  const sources = program.command('sources').description('say who may send webhooks to /in/…')
  const deps: Deps = { terminal, client: () => new ApiClient(clientSettings(terminal.env)) }
  addCreate(sources, deps)
  addReads(sources, deps)
  addUpdate(sources, deps)
  addSecrets(sources, deps)
  addDelete(sources, deps)
}

function addCreate(sources: Command, { terminal, client }: Deps): void {
  const create = sources
    .command('create')
    .description('add a source; prints it with the path that the provider calls')
    .argument('<name>', 'the last part of its address: /in/<name>')
    .addOption(
      new Option('--provider <provider>', 'who signs, and so how')
        .choices([...providers, 'svix'])
        .makeOptionMandatory(),
    )
    .option(secretFlag, secretHint)
    .option('--tenant <name>', 'whose events these are')
  withFormat(withSourceFlags(create)).action(async (name: string, flags: SourceFlags & SecretFlag & Output) => {
    const secret = await secretFrom(terminal, flags.secret)
    printItem(
      terminal,
      flags.output,
      rowOf(await client().post('/v1/sources', { name, ...sourceBody(flags), ...secret })),
    )
  })
}

function addReads(sources: Command, { terminal, client }: Deps): void {
  const list = sources
    .command('list')
    .description('list sources')
    .option('--tenant <name>', 'only of this tenant')
    .addOption(new Option('--provider <provider>', 'only of this provider').choices(providers))
  withFormat(withPaging(list)).action(async (options: ListOptions & { tenant?: string; provider?: string }) => {
    const { tenant, provider } = options
    const whenEmpty = 'there is no source; add one with: posthorn sources create <name> --provider <provider>'
    await printPages(terminal, client(), {
      path: '/v1/sources',
      query: { tenant, provider },
      options,
      columns,
      whenEmpty,
    })
  })
  const show = sources.command('show').description('show a source').argument('<id>', idHint)
  withFormat(show).action(async (id: string, { output }: Output) => {
    printItem(terminal, output, rowOf(await client().get(pathOf(id))))
  })
}

const columns: readonly Column[] = [
  { title: 'ID', show: ({ id }) => textOf(id) },
  { title: 'PATH', show: ({ path }) => textOf(path) },
  { title: 'PROVIDER', show: ({ provider }) => textOf(provider) },
  { title: 'TYPE', show: ({ type }) => textOf(type) },
  tenantColumn,
]

function addUpdate(sources: Command, { terminal, client }: Deps): void {
  const update = sources.command('update').description('change what is named; the rest stays').argument('<id>', idHint)
  withFormat(withSourceFlags(update)).action(async (id: string, flags: SourceFlags & Output) => {
    const body = sourceBody(flags)
    if (Object.keys(body).length === 0) throw new UsageError('Nothing to change was named; see --help.')
    printItem(terminal, flags.output, rowOf(await client().json('PATCH', pathOf(id), { body })))
  })
}

function addSecrets(sources: Command, { terminal, client }: Deps): void {
  sources
    .command('secret')
    .description('print the secret and nothing else')
    .argument('<id>', idHint)
    .action(async (id: string) => {
      terminal.print(textOf(rowOf(await client().get(`${pathOf(id)}/secret`)).secret))
    })
  const rotate = sources
    .command('rotate-secret')
    .description('take a new secret, and for a while the old one too; prints the new one')
    .argument('<id>', idHint)
    .option(secretFlag, `${secretHint}; for standard it is made up if left out`)
    .option('--keep-old-for <duration>', 'how long both secrets are good', durationText)
  withFormat(rotate).action(async (id: string, flags: Output & SecretFlag & { keepOldFor?: string }) => {
    const { output, keepOldFor } = flags
    const secret = await secretFrom(terminal, flags.secret)
    const body = { ...secret, ...(keepOldFor !== undefined && { keepOldFor }) }
    const answer = rowOf(await client().post(`${pathOf(id)}/rotate-secret`, body))
    if (output !== 'table') return printItem(terminal, output, answer)
    terminal.print(textOf(answer.secret))
  })
}

function addDelete(sources: Command, { terminal, client }: Deps): void {
  sources
    .command('delete')
    .description('delete a source; its address is a 404 from then on, its events stay')
    .argument('<id>', idHint)
    .option('--yes', 'do not ask')
    .action(async (id: string, { yes = false }: { yes?: boolean }) => {
      const question = yes ? '' : deletion(rowOf(await client().get(pathOf(id))))
      if (!(await confirm(terminal, question, { yes }))) throw new CommandFailed('nothing was deleted')
      await client().json('DELETE', pathOf(id))
      terminal.say(`${id} is deleted`)
    })
}

function deletion(source: Row): string {
  return `delete ${textOf(source.id)} (${textOf(source.path)})? What its provider sends will be refused.`
}

function pathOf(id: string): string {
  return `/v1/sources/${encodeURIComponent(id)}`
}
