import { type Command, Option } from 'commander'
import { roles } from '../core/api-key.ts'
import { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { CommandFailed } from './failure.ts'
import { type ListOptions, printPages, withPaging } from './listing.ts'
import { type Column, type Format, instantText, printItem, textOf, withFormat } from './output.ts'
import type { Terminal } from './terminal.ts'

type Creation = Readonly<{ role: string; tenant?: string; name?: string; output: Format }>

export function addKeys(program: Command, terminal: Terminal): void {
  const keys = program.command('keys').description('say who may do what')
  const client = () => new ApiClient(clientSettings(terminal.env))

  const create = keys
    .command('create')
    .description('make a key; prints it, once')
    .addOption(
      new Option('--role <role>', 'what it may: everything, send events, or read').choices(roles).makeOptionMandatory(),
    )
    .option('--tenant <name>', 'it sees, sends and changes only this tenant')
    .option('--name <name>', 'what it is for')
  withFormat(create).action(async ({ output, ...body }: Creation) => {
    const made = rowOf(await client().post('/v1/keys', body))
    if (output !== 'table') return printItem(terminal, output, made)
    terminal.say(`${textOf(made.id)} is made; this is the only time that the key is shown:`)
    terminal.print(textOf(made.key))
  })

  const list = keys.command('list').description('list keys').option('--tenant <name>', 'only of this tenant')
  withFormat(withPaging(list)).action(async (options: ListOptions & { tenant?: string }) => {
    const listing = { path: '/v1/keys', query: { tenant: options.tenant }, options, columns: columnsOf(terminal) }
    const whenEmpty = 'no key is kept; make one with: posthorn keys create --role send'
    await printPages(terminal, client(), { ...listing, whenEmpty })
  })

  keys
    .command('delete')
    .description('revoke a key, at once')
    .argument('<id>', 'key_…')
    .option('--yes', 'do not ask')
    .action(async (id: string, { yes = false }: { yes?: boolean }) => {
      const isSure = await confirm(terminal, `delete ${id}? Whoever uses it is shut out at once.`, { yes })
      if (!isSure) throw new CommandFailed('nothing was deleted')
      await client().json('DELETE', `/v1/keys/${encodeURIComponent(id)}`)
      terminal.say(`${id} is deleted`)
    })
}

function columnsOf(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'ROLE', show: ({ role }) => textOf(role) },
    { title: 'TENANT', show: ({ tenant }) => (tenant === null ? 'all' : textOf(tenant)) },
    { title: 'NAME', show: ({ name }) => textOf(name) },
    { title: 'CREATED', show: ({ createdAt }) => instantText(terminal, createdAt) },
  ]
}
