import { hash, randomBytes } from 'node:crypto'

const keyBytes = 32

/** A new secret that lets somebody in. Only its hash is kept. */
export function newKeyText(prefix: string): string {
  return `${prefix}${randomBytes(keyBytes).toString('base64url')}`
}

/** What is kept of a key. Keys are random, so a plain hash cannot be guessed, and its timing tells nothing about others. */
export function hashOfKey(text: string): string {
  return hash('sha256', text, 'hex')
}
