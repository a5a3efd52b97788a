import { lookup, Resolver } from 'node:dns/promises'
import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'

export type Resolved = Readonly<{ address: string; ttlS: number }>

/** Every address of a name (lower case, no trailing dot), IPv4 first. Rejects with a code when there is none. */
export type Resolve = (name: string) => Promise<readonly Resolved[]>

export type SystemDns = Readonly<{ resolve: Resolve; close(): void }>

const queryTimeoutMs = 2_000
const queryTriesMax = 2
/** For sources that have no time to live of their own. */
const localTtlS = 5
const hostsFile = process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts'

/**
 * Asks as the machine would: the hosts file, then the system's own resolver for names without a dot, then DNS. Names
 * that strangers choose go over c-ares, never over getaddrinfo: a name server that does not answer would hold one of
 * the few threads that every other endpoint needs too.
 */
export function openSystemDns(): SystemDns {
  const resolver = new Resolver({ timeout: queryTimeoutMs, tries: queryTriesMax })
  const hosts = openHostsFile(hostsFile)
  return {
    async resolve(name) {
      const known = (await hosts.read()).get(name)
      if (known !== undefined) return known.map((address) => ({ address, ttlS: localTtlS }))
      if (!name.includes('.') || name.endsWith('.localhost')) return await ask(name)
      try {
        return await query(resolver, name)
      } catch (error) {
        // Only the system knows the search domains of a name such as `service.namespace`. DNS has just answered, so
        // asking it holds no thread for long.
        if (codeOf(error) === 'ENOTFOUND') return await ask(name)
        throw error
      }
    },
    close: () => resolver.cancel(),
  }
}

async function ask(name: string): Promise<readonly Resolved[]> {
  const found = await lookup(name, { all: true, order: 'ipv4first' })
  return found.map(({ address }) => ({ address, ttlS: localTtlS }))
}

async function query(resolver: Resolver, name: string): Promise<readonly Resolved[]> {
  const answers = await Promise.allSettled([
    resolver.resolve4(name, { ttl: true }),
    resolver.resolve6(name, { ttl: true }),
  ])
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (found.length > 0) return found.map(({ address, ttl }) => ({ address, ttlS: ttl }))
  throw lookupError(name, answers)
}

/** A name without addresses is not found; anything else is trouble on the way, under the resolver's own code. */
function lookupError(name: string, answers: readonly PromiseSettledResult<unknown>[]): Error {
  const codes = answers.map((answer) => (answer.status === 'rejected' ? codeOf(answer.reason) : 'ENODATA'))
  const trouble = codes.find((code) => code !== 'ENOTFOUND' && code !== 'ENODATA')
  if (trouble === undefined) return withCode('ENOTFOUND', `${name} was not found`)
  // The name server refused us, not the endpoint.
  if (trouble === 'ECONNREFUSED') return withCode('EAI_AGAIN', 'the name server could not be reached')
  return withCode(trouble, `looking up ${name} failed (${trouble})`)
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'EAI_FAIL'
}

function withCode(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

type HostsFile = Readonly<{ read(): Promise<ReadonlyMap<string, readonly string[]>> }>

/** Read again only when the file has changed. A machine without one has no entries. */
function openHostsFile(path: string): HostsFile {
  let modifiedAt = Number.NaN
  let entries: ReadonlyMap<string, readonly string[]> = new Map()
  return {
    async read() {
      try {
        const { mtimeMs } = await stat(path)
        if (mtimeMs !== modifiedAt) {
          entries = parseHosts(await readFile(path, 'utf8'))
          modifiedAt = mtimeMs
        }
      } catch {
        entries = new Map()
        modifiedAt = Number.NaN
      }
      return entries
    },
  }
}

export function parseHosts(text: string): ReadonlyMap<string, readonly string[]> {
  const entries = new Map<string, string[]>()
  for (const line of text.split(/\r?\n/)) {
    const [address = '', ...names] = line.replace(/#.*$/, '').trim().split(/\s+/)
    if (isIP(address) === 0) continue
    for (const name of names) {
      const key = name.toLowerCase().replace(/\.$/, '')
      const known = entries.get(key)
      if (known === undefined) entries.set(key, [address])
      else if (!known.includes(address)) known.push(address)
    }
  }
  return entries
}
