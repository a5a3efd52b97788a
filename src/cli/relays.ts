import type { Command } from 'commander'
import { isLoopback } from '../config-values.ts'
import { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { confirm } from './confirm.ts'
import { CommandFailed } from './failure.ts'
import { allItems, type ListOptions, printPages, withPaging } from './listing.ts'
import {
  type Column,
  counted,
  type Format,
  instantText,
  printItem,
  type Row,
  tenantColumn,
  textOf,
  withFormat,
} from './output.ts'
import type { Terminal } from './terminal.ts'

type Output = Readonly<{ output: Format }>
type Sure = Readonly<{ yes?: boolean }>
type Deps = Readonly<{ terminal: Terminal; client: () => ApiClient }>

const afterHelp = `
Here, on the edge, and then on the machine that nobody can reach:
  posthorn relays create home
  posthorn endpoints create --relay home --route github --types 'github.*'
  posthorn relay --edge wss://edge.example --key-file ./relay-key --route github=http://127.0.0.1:8123/hook`

const idHint = 'rly_… or its name'

export function addRelays(program: Command, terminal: Terminal): void {
  const relays = program
    .command('relays')
    .description('say which hubs may connect, and see how they are doing')
    .addHelpText('after', afterHelp)
  const deps: Deps = { terminal, client: () => new ApiClient(clientSettings(terminal.env)) }
  addCreate(relays, deps)
  addReads(relays, deps)
  addRotateKey(relays, deps)
  addRevoke(relays, deps)
}

function addCreate(relays: Command, { terminal, client }: Deps): void {
  const create = relays
    .command('create')
    .description('let a hub connect; prints its key, once, and how to start it')
    .argument('<name>', 'what endpoints call it, such as home')
    .option('--tenant <name>', 'whose relay it is')
  withFormat(create).action(async (name: string, { output, tenant }: Output & { tenant?: string }) => {
    const made = rowOf(await client().post('/v1/relays', { name, ...(tenant !== undefined && { tenant }) }))
    printKey(terminal, output, made, {
      done: `${textOf(made.id)} is made`,
      next: 'On the machine of the hub, with the key in a file that nobody else can read, and routes of your own:',
    })
  })
}

/** The key alone on stdout, for a script; all that a person needs on stderr. */
function printKey(terminal: Terminal, output: Format, made: Row, what: Readonly<{ done: string; next: string }>): void {
  if (output !== 'table') {
    printItem(terminal, output, made)
    return
  }
  terminal.say(`${what.done}; this is the only time that the key is shown:`)
  terminal.print(textOf(made.key))
  terminal.say(what.next)
  terminal.say(
    `  posthorn relay --edge ${edgeFor(terminal)} --key-file ./relay-key --route github=http://127.0.0.1:3000/webhooks`,
  )
}

/** As hubs may reach this server. What is true on this machine alone helps no other. */
function edgeFor(terminal: Terminal): string {
  const { url } = clientSettings(terminal.env)
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  return isLoopback(host) ? "'wss://<address of this edge>'" : url.replace(/^http/i, 'ws')
}

function addReads(relays: Command, { terminal, client }: Deps): void {
  const list = relays.command('list').description('list relays').option('--tenant <name>', 'only of this tenant')
  withFormat(withPaging(list)).action(async (options: ListOptions & { tenant?: string }) => {
    const { tenant } = options
    const api = client()
    const whenEmpty = () => absence(api, tenant)
    const listing = { path: '/v1/relays', query: { tenant }, options, columns: columnsOf(terminal), whenEmpty }
    await printPages(terminal, api, listing)
  })
  const show = relays
    .command('show')
    .description('show a relay: its link, and what waits for it')
    .argument('<id>', idHint)
  withFormat(show).action(async (id: string, { output }: Output) => {
    printItem(terminal, output, rowOf(await client().get(pathOf(id))))
  })
}

/** Endpoints stay when their relay is revoked: who looks for what waits must not be told that there is nothing. */
async function absence(client: ApiClient, tenant: string | undefined): Promise<string> {
  const none = tenant === undefined ? 'there is no relay' : 'no relay matches'
  const endpoints = await allItems(client, '/v1/endpoints', { kind: 'relay', tenant })
  const names = [...new Set(endpoints.map(({ relay }) => textOf(relay)))]
  if (names.length === 0) return `${none}; make one with: posthorn relays create <name>`
  const waiting = `${counted(endpoints.length, 'endpoint')} of a relay that is gone: what comes for it waits`
  return `${none}, but ${waiting}; make it anew with: posthorn relays create ${names.join(' | ')}`
}

function columnsOf(terminal: Terminal): readonly Column[] {
  return [
    { title: 'ID', show: ({ id }) => textOf(id) },
    { title: 'NAME', show: ({ name }) => textOf(name) },
    {
      title: 'HUB',
      show: ({ connected }) => (connected === true ? 'connected' : 'away'),
      colour: ({ connected }) => (connected === true ? 'green' : 'yellow'),
    },
    { title: 'MEMBER', show: ({ member }) => textOf(member), usual: 'single' },
    { title: 'SINCE', show: ({ since }) => instantText(terminal, since) },
    { title: 'ROUTES', show: ({ routes }) => textOf(routes) },
    { title: 'QUEUED', show: ({ queued }) => textOf(queued) },
    { title: 'OLDEST', show: ({ oldestAt }) => instantText(terminal, oldestAt) },
    tenantColumn,
  ]
}

function addRotateKey(relays: Command, { terminal, client }: Deps): void {
  const rotate = relays
    .command('rotate-key')
    .description('make a new key, which is printed once; the hub with the old one is cut off at once')
    .argument('<id>', idHint)
    .option('--yes', 'do not ask')
  withFormat(rotate).action(async (id: string, { output, yes = false }: Output & Sure) => {
    const question = `make a new key for the relay ${id}? A hub with the old one is cut off until it has the new one.`
    if (!(await confirm(terminal, question, { yes }))) throw new CommandFailed('the key is as it was')
    const made = rowOf(await client().post(`${pathOf(id)}/rotate-key`))
    printKey(terminal, output, made, {
      done: `${textOf(made.id)} has a new key`,
      next: 'On the machine of the hub, put it in the place of the old one, and start the hub again; by hand:',
    })
  })
}

function addRevoke(relays: Command, { terminal, client }: Deps): void {
  relays
    .command('revoke')
    .description('shut a hub out, at once; its endpoints stay, and their deliveries wait')
    .argument('<id>', idHint)
    .option('--yes', 'do not ask')
    .action(async (id: string, { yes = false }: Sure) => {
      const question = yes ? '' : revocation(rowOf(await client().get(pathOf(id))))
      if (!(await confirm(terminal, question, { yes }))) throw new CommandFailed('nothing was revoked')
      await client().json('DELETE', pathOf(id))
      terminal.say(
        `${id} is revoked; what its endpoints get from now on waits until they lead elsewhere, or it is made anew`,
      )
    })
}

function revocation({ id, name, connected }: Row): string {
  const hub = connected === true ? 'Its hub is connected, and is cut off at once.' : 'Its key is good for nothing then.'
  return `revoke ${textOf(id)} (${textOf(name)})? ${hub}`
}

function pathOf(id: string): string {
  return `/v1/relays/${encodeURIComponent(id)}`
}
