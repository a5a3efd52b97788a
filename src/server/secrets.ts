import { randomBytes } from 'node:crypto'
import type { SigningSecret } from '../core/endpoint.ts'

type WithSecrets = Readonly<{ secrets: readonly SigningSecret[]; updatedAt: number }>

const secretBytes = 32
const secretsMax = 4

export function newSecret(): string {
  return `whsec_${randomBytes(secretBytes).toString('base64')}`
}

/** The one that signs first; null where nothing is signed. */
export function secretOf({ secrets }: Pick<WithSecrets, 'secrets'>): string | null {
  return secrets[0]?.secret ?? null
}

/** An endpoint or a source with a new secret; the old ones are good for a while yet. */
export function rotated<T extends WithSecrets>(owner: T, secret: string, keepOldForMs: number, now: number): T {
  const old = owner.secrets
    .map((entry) => ({
      ...entry,
      expiresAt: Math.min(entry.expiresAt ?? Number.POSITIVE_INFINITY, now + keepOldForMs),
    }))
    .filter((entry) => entry.expiresAt > now)
  return { ...owner, secrets: [{ secret, expiresAt: null }, ...old].slice(0, secretsMax), updatedAt: now }
}
