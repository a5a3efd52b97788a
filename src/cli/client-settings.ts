import { readFileSync } from 'node:fs'
import { withoutCredentials } from '../core/url-credentials.ts'
import type { ClientSettings } from '../server/client.ts'
import { isRow } from './answers.ts'
import { UsageError } from './failure.ts'
import type { Env } from './terminal.ts'

const urlDefault = 'http://127.0.0.1:4800'

/** Which server the REST commands speak to, and as whom: from the environment, else from the configuration file. */
export function clientSettings(env: Env): ClientSettings {
  const file = fileSettings(env.POSTHORN_CONFIG || null)
  const url = env.POSTHORN_URL || file.url || urlDefault
  const parsed = URL.parse(url)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) {
    throw new UsageError(
      `${env.POSTHORN_URL ? 'POSTHORN_URL' : 'url in the file'} is not an http(s) address: ${withoutCredentials(url)}`,
    )
  }
  const apiKey = env.POSTHORN_API_KEY || file.apiKey || null
  if (apiKey !== null && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError('POSTHORN_API_KEY has characters that cannot be sent in a header.')
  }
  return { url, apiKey }
}

type FileSettings = Readonly<{ url: string | null; apiKey: string | null }>

/** Only what a client needs: the rest is checked when a server starts with it. Loading all of it would cost every command. */
function fileSettings(path: string | null): FileSettings {
  if (path === null) return { url: null, apiKey: null }
  const settings = parseFile(path)
  return { url: textIn(settings, 'url', path), apiKey: textIn(settings, 'apiKey', path) }
}

function parseFile(path: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (isRow(value)) return value
  } catch (error) {
    throw new UsageError(`${path} cannot be read as JSON: ${error instanceof Error ? error.message : error}`)
  }
  throw new UsageError(`${path} must be a JSON object.`)
}

function textIn(settings: Readonly<Record<string, unknown>>, name: string, path: string): string | null {
  const value = settings[name] ?? null
  if (value === null || typeof value === 'string') return value
  throw new UsageError(`${path}: ${name} must be a text.`)
}
