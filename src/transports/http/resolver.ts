import { isIP } from 'node:net'
import type { AddressGuard } from './address-guard.ts'
import type { Resolve } from './system-dns.ts'

/** Where a host may be reached: only addresses that the guard lets through, or the reason why there are none. */
export type Vetted =
  | Readonly<{ kind: 'addresses'; addresses: readonly string[] }>
  /** `message` is for whoever chose the host; `detail` names the address, and is for the operator. */
  | Readonly<{ kind: 'refused'; message: string; detail: string }>
  | Readonly<{ kind: 'unknown'; error: Error }>

export type Resolver = Readonly<{
  /** `host` as the URL has it: a name or an IP literal, with or without brackets or a trailing dot. Never rejects. */
  vet(host: string): Promise<Vetted>
}>

const ttlMsMin = 5_000
const ttlMsMax = 60_000
const failureTtlMs = 2_000
const namesMax = 2_048
const addressesMax = 16

/** Names of metadata services: they mean the same everywhere, also where they do not resolve yet. */
const metadataNames: ReadonlySet<string> = new Set(['metadata.google.internal', 'metadata.goog'])
const metadataAddress = '169.254.169.254'

type Entry = { readonly answer: Promise<Vetted>; staleAt: number }

/** One question per name at a time, and the answer is kept for a while. */
export function openResolver(
  guard: AddressGuard,
  resolve: Resolve,
  now: () => number = () => performance.now(),
): Resolver {
  const cache = new Map<string, Entry>()

  function ask(name: string): Promise<Vetted> {
    const known = cache.get(name)
    if (known !== undefined && now() < known.staleAt) return known.answer
    const question = lookUp(name)
    const entry: Entry = { answer: question.then(({ vetted }) => vetted), staleAt: Number.POSITIVE_INFINITY }
    cache.delete(name)
    cache.set(name, entry)
    forgetOldest(cache)
    question.then(({ ttlMs }) => {
      entry.staleAt = now() + ttlMs
    })
    return entry.answer
  }

  async function lookUp(name: string): Promise<Readonly<{ vetted: Vetted; ttlMs: number }>> {
    try {
      const found = await resolve(name)
      const ttlMs = Math.min(...found.map(({ ttlS }) => ttlS * 1_000), ttlMsMax)
      const addresses = found.map(({ address }) => address)
      return { vetted: vetAll(guard, name, addresses), ttlMs: Math.max(ttlMs, ttlMsMin) }
    } catch (error) {
      const failure = error instanceof Error ? error : new Error(String(error))
      return { vetted: { kind: 'unknown', error: failure }, ttlMs: failureTtlMs }
    }
  }

  return {
    vet(host) {
      const name = nameOf(host)
      if (isIP(name) !== 0) return Promise.resolve(vetLiteral(guard, name))
      const refusal = metadataNames.has(name) ? guard.check(metadataAddress) : null
      const detail = `${name} is refused: ${refusal}`
      if (refusal !== null) return Promise.resolve({ kind: 'refused', message: notAllowed(name), detail })
      return ask(name)
    },
  }
}

function nameOf(host: string): string {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  return bare.toLowerCase().replace(/\.$/, '')
}

function vetLiteral(guard: AddressGuard, address: string): Vetted {
  const message = guard.check(address)
  return message === null ? { kind: 'addresses', addresses: [address] } : { kind: 'refused', message, detail: message }
}

/** Where a name leads inside a network is nobody's business who only knows the name. */
export function notAllowed(name: string): string {
  return `${name} leads to an address that is not allowed here`
}

/** One closed address closes the name: who mixes a private address in wants us to pick it. */
function vetAll(guard: AddressGuard, name: string, addresses: readonly string[]): Vetted {
  for (const address of addresses) {
    const refusal = guard.check(address)
    const detail = `${name} leads to a closed address: ${refusal}`
    if (refusal !== null) return { kind: 'refused', message: notAllowed(name), detail }
  }
  if (addresses.length > 0) return { kind: 'addresses', addresses: addresses.slice(0, addressesMax) }
  return { kind: 'unknown', error: Object.assign(new Error(`${name} was not found`), { code: 'ENOTFOUND' }) }
}

function forgetOldest(cache: Map<string, Entry>): void {
  if (cache.size <= namesMax) return
  for (const name of cache.keys()) {
    cache.delete(name)
    return
  }
}
