import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Says which addresses may be connected to. Everything that is not globally routable is closed unless it was opened. */
export type AddressGuard = Readonly<{
  /** Why this address is refused, in a sentence; null when it is not. */
  check(address: string): string | null
}>

type Address = ipaddr.IPv4 | ipaddr.IPv6
type Network = Readonly<{ address: Address; bits: number }>

/** Throws for an entry that is no network: ask `parseAllowPrivate` first where the list comes from a person. */
export function openAddressGuard(allowPrivate: readonly string[]): AddressGuard {
  const parsed = parseAllowPrivate(allowPrivate)
  if ('problem' in parsed) throw new Error(parsed.problem)
  const { networks } = parsed
  return {
    check(text) {
      const address = addressOf(text)
      if (address === null) return `${JSON.stringify(text)} is not an IP address`
      const special = specialRange(address)
      if (special === null || isOpen(networks, address, special)) return null
      const how = special.exactOnly ? ' (this address alone, a network does not open it)' : ''
      const bits = address.kind() === 'ipv4' ? 32 : 128
      // The setting replaces what is open now, the default too.
      const ranges = [...allowPrivate, `${address}/${bits}`].join(',')
      return `${text} is ${special.name}; set POSTHORN_ALLOW_PRIVATE=${ranges} at the server to allow it${how}`
    },
  }
}

/** The networks in the list, or what is wrong with its first bad entry. */
export function parseAllowPrivate(
  list: readonly string[],
): Readonly<{ problem: string }> | Readonly<{ networks: readonly Network[] }> {
  const networks: Network[] = []
  for (const entry of list) {
    const network = networkOf(entry.trim())
    if (network === null) {
      return { problem: `${JSON.stringify(entry)} is neither an IP address nor a network like 10.0.0.0/8` }
    }
    if (network.bits === 0 && network.address.kind() === 'ipv4' && entry.includes(':')) {
      return { problem: `${JSON.stringify(entry)} means every IPv4 address; write 0.0.0.0/0 if you mean that` }
    }
    networks.push(network)
  }
  return { networks }
}

/** `exactOnly`: a broad network in the allow list does not open it, since its secrets are worth more than the comfort. */
type SpecialRange = Readonly<{ name: string; exactOnly: boolean }>

/** Where clouds hand out credentials to whoever asks from inside. */
const metadataAddresses: ReadonlySet<string> = new Set([
  '169.254.169.254',
  '169.254.170.2',
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
  'fd00:ec2::254',
  'fd20:ce::254',
  'fe80::a9fe:a9fe',
])

const rangeNames: Readonly<Record<string, string>> = {
  unspecified: 'an address of "this network"',
  broadcast: 'the broadcast address',
  multicast: 'a multicast address',
  linkLocal: 'a link-local address',
  loopback: 'a loopback address',
  carrierGradeNat: 'an address behind carrier-grade NAT (100.64.0.0/10)',
  private: 'a private address (RFC 1918)',
  uniqueLocal: 'a private address (fc00::/7)',
  deprecatedSiteLocal: 'a site-local address (fec0::/10)',
  discard: 'a discard-only address (100::/64)',
  segmentRouting: 'a segment-routing address (5f00::/16)',
  reserved: 'a reserved address',
}

const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]
const compatible: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('::'), 96]
/** Ways to write an IPv4 address inside an IPv6 one that lead through somebody else's gateway. */
const tunnels: ReadonlySet<string> = new Set(['rfc6145', 'rfc6052', '6to4', 'teredo'])

/** What is special about an address; null for an ordinary one on the internet. */
function specialRange(address: Address): SpecialRange | null {
  if (metadataAddresses.has(address.toString())) return { name: 'a cloud metadata address', exactOnly: true }
  const range: string = address.range()
  if (range === 'linkLocal') return { name: nameOf(range), exactOnly: true }
  if (address instanceof ipaddr.IPv6) {
    if (isTunnel(address, range)) return { name: 'an address that tunnels to an IPv4 address', exactOnly: true }
    if (range === 'unicast' && !address.match(globalUnicast)) return { name: nameOf('reserved'), exactOnly: false }
  }
  return range === 'unicast' ? null : { name: nameOf(range), exactOnly: false }
}

function nameOf(range: string): string {
  return rangeNames[range] ?? `a special-purpose address (${range})`
}

function isTunnel(address: ipaddr.IPv6, range: string): boolean {
  if (tunnels.has(range)) return true
  if (range === 'unicast' && address.match(compatible)) return true
  // ISATAP writes ::5efe: or ::200:5efe: in front of the IPv4 address, after any prefix.
  return address.parts[5] === 0x5efe && (address.parts[4] === 0 || address.parts[4] === 0x200)
}

function isOpen(networks: readonly Network[], address: Address, special: SpecialRange): boolean {
  const exact = address.kind() === 'ipv4' ? 32 : 128
  return networks.some(
    (network) =>
      network.address.kind() === address.kind() &&
      (network.bits === exact || !special.exactOnly) &&
      address.match(network.address, network.bits),
  )
}

const wellKnownNat64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('64:ff9b::'), 96]

/** The address as it will be judged: IPv4 inside a mapped or a NAT64 address is what the packets will reach. */
function addressOf(text: string): Address | null {
  // net.isIP is strict; ipaddr.js alone would also read 0177.1 and the like.
  if (isIP(text) === 0) return null
  const address = ipaddr.parse(withoutDots(text.replace(/%.*$/, '')))
  if (!(address instanceof ipaddr.IPv6)) return address
  const embedsIPv4 = address.isIPv4MappedAddress() || address.match(wellKnownNat64)
  return embedsIPv4 ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}

/** ipaddr.js takes ::8.8.8.8 for ::ffff:8.8.8.8, which is another address. In hexadecimal there is no doubt. */
function withoutDots(text: string): string {
  return text.includes(':') && text.includes('.') ? new URL(`http://[${text}]`).hostname.slice(1, -1) : text
}

function networkOf(entry: string): Network | null {
  const [text = '', bitsText, ...rest] = entry.split('/')
  const family = isIP(text)
  if (family === 0 || text.includes('%') || rest.length > 0) return null
  const address = addressOf(text)
  if (address === null) return null
  const bitsMax = family === 4 ? 32 : 128
  if (bitsText !== undefined && !/^\d{1,3}$/.test(bitsText)) return null
  const bitsWritten = bitsText === undefined ? bitsMax : Number(bitsText)
  if (bitsWritten > bitsMax) return null
  const bits = family === 6 && address.kind() === 'ipv4' ? bitsWritten - 96 : bitsWritten
  return bits < 0 ? null : { address, bits }
}
