import type { AddressGuard } from './address-guard.ts'
import { openResolver, type Resolver, type Vetted } from './resolver.ts'
import type { Resolve } from './system-dns.ts'

/** Where connections may go: to what the guard lets through, and to the hosts and ports that a person has named. */
export type Admission = Readonly<{
  /** `host` as the URL has it. Never rejects. */
  vet(host: string, port: number): Promise<Vetted>
  /** Why we must not talk to who is at the other end of a connection to this host and port; null when we may. */
  refusalOf(host: string, port: number, address: string): string | null
}>

/** Throws for what is no origin, like `http://127.0.0.1:8123`. */
export function openAdmission(guard: AddressGuard, resolve: Resolve, allowOrigins: readonly string[]): Admission {
  const named = new Set(allowOrigins.map(placeOfOrigin))
  const guarded = openResolver(guard, resolve)
  const unguarded: Resolver = openResolver(everyAddress, resolve)
  const isNamed = (host: string, port: number): boolean => named.size > 0 && named.has(placeOf(host, port))
  return {
    vet: (host, port) => (isNamed(host, port) ? unguarded : guarded).vet(host),
    refusalOf: (host, port, address) => (isNamed(host, port) ? null : guard.check(address)),
  }
}

export function portOf(protocol: string, port: string): number {
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}

const everyAddress: AddressGuard = { check: () => null }

function placeOfOrigin(text: string): string {
  const { hostname, protocol, port } = new URL(text)
  return placeOf(hostname, portOf(protocol, port))
}

function placeOf(host: string, port: number): string {
  return `${host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')} ${port}`
}
