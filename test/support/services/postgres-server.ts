import { spawnSync } from 'node:child_process'
import { appendFileSync, chownSync, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { type Account, as, unprivileged } from './account.ts'
import { ownFolder, servicesFolder } from './folders.ts'
import { freePort } from './port.ts'
import { type PostgresPrograms, postgresPrograms } from './postgres-programs.ts'
import { Service } from './service.ts'

export type PostgresOptions = Readonly<{
  /** Where its data goes, such as a small tmpfs; by default below `.runtime/`. Its account must be able to enter it. */
  folder?: string
  /** Lines of postgresql.conf. `alter system` can change them too. */
  settings?: Readonly<Record<string, string | number>>
}>

export const superuser = 'posthorn'
export const password = 'posthorn'
const connectMsMax = 5_000

/** As fast as possible: what is committed survives a kill -9 of the server, but not a power cut. */
export const notDurable = { fsync: 'off', full_page_writes: 'off' } as const

/** A server of PostgreSQL's defaults (durable), on loopback, with one superuser and its password. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Service> {
  const programs = postgresPrograms()
  const account = unprivileged()
  return startCopy(template(programs, account), options, () => {})
}

/** A replica of this server, which is stopped for a moment. Whoever asks it sees the primary's past, a moment ago. */
export async function startStandby(primary: Service, options: PostgresOptions = {}): Promise<Service> {
  await primary.stop()
  try {
    return await startCopy(dataOf(primary.folder), options, (data) => follow(data, primary))
  } finally {
    await primary.start()
  }
}

/** From its next start on it is a replica of that one. */
export function makeStandby(server: Service, primary: Service): void {
  follow(dataOf(server.folder), primary)
}

function follow(data: string, primary: Service): void {
  const account = unprivileged()
  const signal = path.join(data, 'standby.signal')
  writeFileSync(signal, '')
  if (account !== null) chownSync(signal, account.uid, account.gid)
  const conninfo = `host=127.0.0.1 port=${primary.port} user=${superuser} password=${password}`
  appendFileSync(path.join(data, 'postgresql.conf'), `primary_conninfo = '${conninfo}'\n`)
}

function dataOf(folder: string): string {
  return path.join(folder, 'data')
}

/** `prepare`: what has to be there before it starts. */
async function startCopy(from: string, options: PostgresOptions, prepare: (data: string) => void): Promise<Service> {
  const programs = postgresPrograms()
  const account = unprivileged()
  const port = await freePort()
  const folder = ownFolder(account, 'postgres', options.folder)
  const data = dataOf(folder)
  const url = `postgres://${superuser}:${password}@127.0.0.1:${port}/postgres`
  try {
    copy(from, data, account)
    configure(data, { port, ...options.settings })
    prepare(data)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
  return Service.open({
    name: `PostgreSQL ${programs.version}`,
    url,
    port,
    command: programs.postgres,
    args: ['-D', data],
    folder,
    account,
    answers: () => answers(url),
    stopSignal: 'SIGINT',
    quitSignal: 'SIGQUIT',
    // The backends of a server that was killed end a moment later.
    notYet: /pre-existing shared memory block|could not bind|is another postmaster/i,
  })
}

function configure(data: string, settings: Readonly<Record<string, string | number>>): void {
  // No sockets in folders: the paths of some checkouts are too long for them.
  const all = { listen_addresses: '127.0.0.1', unix_socket_directories: '', max_connections: 200, ...settings }
  const lines = Object.entries(all).map(([name, value]) => `${name} = '${String(value).replaceAll("'", "''")}'\n`)
  appendFileSync(path.join(data, 'postgresql.conf'), lines.join(''))
}

/** A cluster as initdb makes it. It is made once and copied for each server. */
function template(programs: PostgresPrograms, account: Account | null): string {
  const home = path.join(servicesFolder(account), `template-${programs.version}-${account?.name ?? process.getuid?.()}`)
  if (existsSync(home)) return home
  const folder = ownFolder(account, 'template')
  const fresh = path.join(folder, 'data')
  const secret = path.join(folder, 'password')
  writeFileSync(secret, password)
  if (account !== null) chownSync(secret, account.uid, account.gid)
  const args = [fresh, '--username', superuser, '--pwfile', secret, '--auth', 'scram-sha-256', '--encoding', 'UTF8']
  const quick = ['--no-sync', '--no-instructions']
  // As most databases do, this one sorts text as people expect it, not by its bytes. Not every build can.
  const locales = [
    ['--locale', 'C', '--locale-provider', 'icu', '--icu-locale', 'en-US'],
    ['--locale', 'C'],
  ]
  const problems = locales.map((locale) => {
    if (existsSync(fresh)) return null
    const { status, stderr, error } = run(programs.initdb, [...args, ...quick, ...locale], folder, account)
    return status === 0 ? null : (error?.message ?? stderr)
  })
  if (!existsSync(fresh)) throw new Error(`initdb failed:\n${problems.join('\n')}`)
  try {
    renameSync(fresh, home)
  } catch (error) {
    // Of two processes that make it at once, the first wins.
    if (!existsSync(home)) throw error
  }
  rmSync(folder, { recursive: true, force: true })
  return home
}

function copy(from: string, to: string, account: Account | null): void {
  const { status, stderr, error } = run('cp', ['-a', from, to], path.dirname(to), account)
  if (status !== 0) throw new Error(`cannot copy ${from} to ${to}: ${error?.message ?? stderr}`)
}

function run(command: string, args: readonly string[], cwd: string, account: Account | null) {
  return spawnSync(command, args, { cwd, encoding: 'utf8', ...as(account) })
}

export async function answers(connectionString: string): Promise<boolean> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: connectMsMax })
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
    return true
  } finally {
    await client.end()
  }
}
