import { Buffer } from 'node:buffer'
import { createHmac, hash } from 'node:crypto'
import type { Hmac } from './core/signature.ts'
import type { HmacScheme } from './core/source.ts'

type Scheme = Pick<HmacScheme, 'algorithm' | 'encoding'>

const blockBytes = { sha1: 64, sha256: 64, sha512: 128 } as const
const blockBytesMax = 128
const digestBytesMax = 64
const innerPad = 0x36
const outerPad = 0x5c

/** Most webhooks are shorter. What is longer costs so much to hash that the way does not matter. */
const shortBytesMax = 16 * 1024
/** Shared by all: nothing waits between the first byte that is put here and the hash of all of them. */
const inner = Buffer.alloc(blockBytesMax + shortBytesMax)
const outer = Buffer.alloc(blockBytesMax + digestBytesMax)

type Bytes = string | Uint8Array

/** The HMAC (RFC 2104) of all parts, one after the other; text is UTF-8. */
export function hmac(scheme: Scheme, key: Bytes, ...parts: readonly Bytes[]): string {
  // No unit of a text takes more than three bytes.
  let bytesAtMost = 0
  for (const part of parts) bytesAtMost += typeof part === 'string' ? part.length * 3 : part.length
  return bytesAtMost <= shortBytesMax ? shortHmac(scheme, key, parts) : longHmac(scheme, key, parts)
}

/** Signs by Standard Webhooks. */
export const standardHmac: Hmac = (key, head, body) =>
  hmac({ algorithm: 'sha256', encoding: 'base64' }, key, head, body)

function longHmac({ algorithm, encoding }: Scheme, key: Bytes, parts: readonly Bytes[]): string {
  const made = createHmac(algorithm, key)
  for (const part of parts) made.update(part)
  return made.digest(encoding)
}

/** As two plain hashes: `createHmac` makes an object outside the heap for each, which costs more than the hashing. */
function shortHmac({ algorithm, encoding }: Scheme, key: Bytes, parts: readonly Bytes[]): string {
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
function keyFor(algorithm: Scheme['algorithm'], key: Bytes): Bytes {
  return Buffer.byteLength(key) <= blockBytes[algorithm] ? key : hash(algorithm, key, 'buffer')
}

/** Answers where it ends. */
function put(part: Bytes, at: number): number {
  if (typeof part === 'string') return at + inner.write(part, at, 'utf8')
  inner.set(part, at)
  return at + part.length
}
