import type { Buffer } from 'node:buffer'

/** The first byte that makes the text invalid, found by halving; a character that is cut off ends at the end. */
export function invalidUtf8At(bytes: Buffer): number {
  let valid = 0
  let invalid = bytes.length + 1
  while (invalid - valid > 1) {
    const middle = Math.floor((valid + invalid) / 2)
    if (canBegin(bytes.subarray(0, middle))) valid = middle
    else invalid = middle
  }
  return invalid - 1
}

function canBegin(bytes: Buffer): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}
