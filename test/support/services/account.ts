import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

export type Account = Readonly<{ name: string; uid: number; gid: number }>

const names = ['postgres', 'nobody']

/** PostgreSQL and PgBouncer refuse to run as root, so root runs them as this account; null: run them as ourselves. */
export function unprivileged(): Account | null {
  if (process.getuid?.() !== 0) return null
  const accounts = readFileSync('/etc/passwd', 'utf8').split('\n').map(accountOf)
  const found = names.map((name) => accounts.find((account) => account.name === name)).find((it) => it !== undefined)
  if (found === undefined) throw new Error(`root needs an account without rights for servers: ${names.join(' or ')}`)
  return found
}

export function canEnter(account: Account | null, folder: string): boolean {
  return spawnSync('test', ['-x', folder], { ...as(account) }).status === 0
}

/** For `spawn`. */
export function as(account: Account | null): { uid: number; gid: number } | undefined {
  return account === null ? undefined : { uid: account.uid, gid: account.gid }
}

function accountOf(line: string): Account {
  const [name = '', , uid, gid] = line.split(':')
  return { name, uid: Number(uid), gid: Number(gid) }
}
