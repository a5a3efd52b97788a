import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'

/** A certificate with its key, as PEM. */
export type Certificate = Readonly<{ name: string; cert: string; key: string }>

/** X.509 certificates for tests, made here so that neither a package nor a program on the machine is needed. */
export function makeCertificate(options: {
  name: string
  hosts?: readonly string[]
  /** Signs the new one; without it the new one signs itself. */
  issuer?: Certificate
  isAuthority?: boolean
  validFrom?: Date
  validTo?: Date
}): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const day = 86_400_000
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    distinguishedName(options.issuer?.name ?? options.name),
    sequence(
      time(options.validFrom ?? new Date(Date.now() - day)),
      time(options.validTo ?? new Date(Date.now() + day)),
    ),
    distinguishedName(options.name),
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(...extensions(options.hosts ?? [], options.isAuthority ?? false))),
  )
  const signature = sign('sha256', body, options.issuer === undefined ? privateKey : options.issuer.key)
  const der = sequence(body, ecdsaWithSha256, tagged(0x03, Buffer.concat([Buffer.from([0]), signature])))
  const base64 = der
    .toString('base64')
    .match(/.{1,64}/g)
    ?.join('\n')
  return { name: options.name, cert: `-----BEGIN CERTIFICATE-----\n${base64}\n-----END CERTIFICATE-----\n`, key }
}

function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts)
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes)
const objectId = (hex: string): Buffer => tagged(0x06, Buffer.from(hex, 'hex'))
const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'))

function distinguishedName(name: string): Buffer {
  return sequence(tagged(0x31, sequence(objectId('550403'), tagged(0x0c, Buffer.from(name)))))
}

function time(at: Date): Buffer {
  const digits = at.toISOString().replace(/\D/g, '').slice(2, 14)
  return tagged(0x17, Buffer.from(`${digits}Z`))
}

function extensions(hosts: readonly string[], isAuthority: boolean): readonly Buffer[] {
  const constraints = sequence(
    objectId('551d13'),
    tagged(0x01, Buffer.from([0xff])),
    tagged(0x04, sequence(...(isAuthority ? [tagged(0x01, Buffer.from([0xff]))] : []))),
  )
  if (hosts.length === 0) return [constraints]
  const names = hosts.map((host) =>
    /^[\d.]+$/.test(host) ? tagged(0x87, Buffer.from(host.split('.').map(Number))) : tagged(0x82, Buffer.from(host)),
  )
  return [constraints, sequence(objectId('551d11'), tagged(0x04, sequence(...names)))]
}
