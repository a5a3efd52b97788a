import { readFileSync } from 'node:fs'

/** What members tell each other of themselves. */
export const posthornVersion: string = JSON.parse(
  readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
).version
