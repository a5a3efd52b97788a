// What `npm run example` can run. Like the bootstrap, for any Node >= 18 and without dependencies.
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../examples', import.meta.url))

/** `name` is a folder, or a file in one. */
export function exampleFile(name) {
  return path.join(folder, name.endsWith('.ts') ? name : `${name}/main.ts`)
}

/** What to say to who asks for none or for one that there is not; null when there is nothing to say. */
export function unknownExample([word, name]) {
  if (word !== 'example' || (name !== undefined && existsSync(exampleFile(name)))) return null
  const examples = readdirSync(folder).filter((entry) => existsSync(exampleFile(entry)))
  const question = name === undefined ? 'which example?' : `there is no example ${name}`
  return [question, ...examples.map((example) => `  npm run example ${example}`)].join('\n')
}
