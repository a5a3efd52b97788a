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
  inner.fill(0, put(keyFor(algorithm, key), 0), block)
  for (let i = 0; i < block; i++) {
    const byte = inner[i] ?? 0
    inner[i] = byte ^ innerPad
    outer[i] = byte ^ outerPad
  }
  let end: number = block
  for (const part of parts) end = put(part, end)
  const digest = hash(algorithm, inner.subarray(0, end), 'latin1')
  return hash(algorithm, outer.subarray(0, block + outer.write(digest, block, 'latin1')), encoding)
}

/** What does not fit into a block is hashed first. */
function keyFor(algorithm: MacScheme['algorithm'], key: Part): Part {
  return Buffer.byteLength(key) <= blockBytes[algorithm] ? key : hash(algorithm, key, 'buffer')
}

/** Where it ends. */
function put(part: Part, at: number): number {
  if (typeof part === 'string') return at + inner.write(part, at, 'utf8')
  inner.set(part, at)
  return at + part.length
}
