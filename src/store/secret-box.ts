import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { PosthornError } from '../core/errors.ts'

const algorithm = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

/** Encrypts what must not be readable in the database file. `context` ties a ciphertext to its place. */
export type SecretBox = Readonly<{
  seal(text: string, context: string): Uint8Array
  open(sealed: Uint8Array, context: string): string
}>

export function createSecretBox(key: Uint8Array): SecretBox {
  return {
    seal(text, context) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce).setAAD(Buffer.from(context))
      const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed])
    },
    open(sealed, context) {
      const bytes = Buffer.from(sealed)
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes))
        .setAAD(Buffer.from(context))
        .setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
      try {
        return decipher.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8') + decipher.final('utf8')
      } catch (cause) {
        throw new PosthornError(
          'store_wrong_key',
          'The encryption key does not fit this database; set POSTHORN_ENCRYPTION_KEY to the key that it was made with, or put the key file back if it is SQLite.',
          { cause },
        )
      }
    },
  }
}

/** The key in a file that only its owner may read; made on first use. */
export function loadOrCreateKey(file: string): Uint8Array {
  return existsSync(file) ? loadKey(file) : createKey(file)
}

export function loadKey(file: string): Uint8Array {
  const key = Buffer.from(readKeyFile(file).trim(), 'base64')
  if (key.length === keyBytes) return key
  throw new PosthornError(
    'store_wrong_key',
    `${file} does not hold a key of ${keyBytes} bytes; put the right file back.`,
  )
}

function readKeyFile(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new PosthornError(
      'store_wrong_key',
      `The encryption key cannot be read (${(cause as Error).message}); put the key file back, or set POSTHORN_ENCRYPTION_KEY.`,
      { cause },
    )
  }
}

/** Whole and on disk before anything is encrypted with it: half a key, or none, would lock its owner out. */
function createKey(file: string): Uint8Array {
  const key = randomBytes(keyBytes)
  const unfinished = `${file}.new`
  // What a crash left behind, or somebody has put there to be written through: a file or a link of theirs.
  rmSync(unfinished, { force: true })
  const handle = openSync(unfinished, 'wx', 0o600)
  writeSync(handle, `${key.toString('base64')}\n`)
  fsyncSync(handle)
  closeSync(handle)
  renameSync(unfinished, file)
  const folder = openSync(dirname(file), 'r')
  fsyncSync(folder)
  closeSync(folder)
  return key
}
