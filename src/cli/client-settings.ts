import type { ClientSettings } from '../server/client.ts'
import { UsageError } from './failure.ts'
import type { Env } from './terminal.ts'

const urlDefault = 'http://127.0.0.1:4800'

/** Which server the REST commands speak to, and as whom. */
export function clientSettings(env: Env): ClientSettings {
  const url = env.POSTHORN_URL || urlDefault
  const parsed = URL.parse(url)
  if (parsed === null || !['http:', 'https:'].includes(parsed.protocol)) {
    throw new UsageError(`POSTHORN_URL is not an http(s) address: ${url}`)
  }
  const apiKey = env.POSTHORN_API_KEY || null
  if (apiKey !== null && !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError('POSTHORN_API_KEY has characters that cannot be sent in a header.')
  }
  return { url, apiKey }
}
