import { Buffer } from 'node:buffer'
import { createHmac, hash } from 'node:crypto'
import type { Hmac } from './core/signature.ts'
import type { HmacScheme } from './core/source.ts'

type MacScheme = Pick<HmacScheme, 'algorithm' | 'encoding'>

const blockBytes = { sha1: 64, sha256: 64, sha512: 128 } as const
const blockBytesMax = 128
const digestBytesMax = 64
const innerPad = 0x36
const outerPad = 0x5c

/** Most webhooks are shorter. What is longer costs so much to hash that the way does not matter. */
const shortBytesMax = 16 * 1024
const inner = Buffer.alloc(blockBytesMax + shortBytesMax)
const outer = Buffer.alloc(blockBytesMax + digestBytesMax)

type Part = string | Uint8Array

/** The HMAC (RFC 2104) of all parts, one after the other; text is UTF-8. */
export function mac(scheme: MacScheme, key: Part, ...parts: readonly Part[]): string {
  let bytesMax = 0
  for (const part of parts) bytesMax += typeof part === 'string' ? part.length * 3 : part.length
  return bytesMax <= shortBytesMax ? shortMac(scheme, key, parts) : longMac(scheme, key, parts)
}

/** Signs by Standard Webhooks. */
export const standardMac: Hmac = (key, head, body) => mac({ algorithm: 'sha256', encoding: 'base64' }, key, head, body)

function longMac({ algorithm, encoding }: MacScheme, key: Part, parts: readonly Part[]): string {
  const hmac = createHmac(algorithm, key)
  for (const part of parts) hmac.update(part)
  return hmac.digest(encoding)
}

/** As two plain hashes: `createHmac` makes an object outside the heap for each, which costs more than the hashing. */
function shortMac({ algorithm, encoding }: MacScheme, key: Part, parts: readonly Part[]): string {
  const block = blockBytes[algorithm]
  const secret = keyBytes(algorithm, key)
  for (let i = 0; i < block; i++) {
    const byte = secret[i] ?? 0
    inner[i] = byte ^ innerPad
    outer[i] = byte ^ outerPad
  }
  let end = block
  for (const part of parts) {
    if (typeof part === 'string') end += inner.write(part, end, 'utf8')
    else {
      inner.set(part, end)
      end += part.length
    }
  }
  const digest = hash(algorithm, inner.subarray(0, end), 'latin1')
  return hash(algorithm, outer.subarray(0, block + outer.write(digest, block, 'latin1')), encoding)
}

function keyBytes(algorithm: MacScheme['algorithm'], key: Part): Uint8Array {
  const bytes = typeof key === 'string' ? Buffer.from(key) : key
  return bytes.length <= blockBytes[algorithm] ? bytes : hash(algorithm, bytes, 'buffer')
}
