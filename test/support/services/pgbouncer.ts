import { chownSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { findTool } from '../debian.ts'
import { unprivileged } from './account.ts'
import { ownFolder } from './folders.ts'
import { ServiceMissing } from './missing.ts'
import { freePort } from './port.ts'
import { answers } from './postgres-server.ts'
import { Service } from './service.ts'

export type PgBouncerOptions = Readonly<{
  /** The server behind it. */
  postgresUrl: string
  /** Lines of its `[pgbouncer]` section. */
  settings?: Readonly<Record<string, string | number>>
}>

export function pgBouncerProgram(): string {
  const tool = findTool('pgbouncer', 'pgbouncer')
  if (tool.kind === 'found') return tool.path
  throw new ServiceMissing(tool.why)
}

/** A PgBouncer in transaction mode. Its URL is that of the server behind it, by another port. */
export async function startPgBouncer({ postgresUrl, settings = {} }: PgBouncerOptions): Promise<Service> {
  const command = pgBouncerProgram()
  const account = unprivileged()
  const port = await freePort()
  const folder = ownFolder(account, 'pgbouncer')
  const server = new URL(postgresUrl)
  const url = new URL(postgresUrl)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  const file = (name: string, text: string) => {
    const full = path.join(folder, name)
    writeFileSync(full, text, { mode: 0o600 })
    if (account !== null) chownSync(full, account.uid, account.gid)
    return full
  }
  const users = file('users.txt', `"${decodeURIComponent(server.username)}" "${decodeURIComponent(server.password)}"\n`)
  const all = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'scram-sha-256',
    auth_file: users,
    admin_users: decodeURIComponent(server.username),
    pool_mode: 'transaction',
    ...settings,
  }
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`)
  const databases = ['[databases]', `* = host=${server.hostname} port=${server.port || 5432}`]
  return Service.open({
    name: 'PgBouncer',
    url: url.href,
    port,
    command,
    args: [file('pgbouncer.ini', `${[...databases, '[pgbouncer]', ...lines].join('\n')}\n`)],
    folder,
    account,
    answers: () => answers(url.href),
    stopSignal: 'SIGINT',
    quitSignal: 'SIGKILL',
    notYet: /address already in use/i,
  })
}
