// Runs an example as a person would: as a process of its own, from the checkout.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type Env, type Running, start } from '../cli/command.ts'

const folder = path.join(import.meta.dirname, '../../examples')

type Cleanup = Readonly<{ after: (fn: () => unknown) => void }>

/** In a checkout `import 'posthorn'` means the sources; `npm run example` and `bin/posthorn` say so too. */
export const conditions = { NODE_OPTIONS: '--conditions=posthorn-source' }

/** `name` is a folder, or a file in one. */
export function startExample(t: Cleanup, name: string, env: Env, cwd?: string): Running {
  const program = path.join(folder, name.endsWith('.ts') ? name : `${name}/main.ts`)
  const running = start([], { program, env: { ...conditions, ...env }, ...(cwd !== undefined && { cwd }) })
  t.after(() => running.stop('SIGKILL'))
  return running
}

/** What the example says about itself. */
export function introductionOf(name: string): string {
  const text = readFileSync(path.join(folder, name, 'main.ts'), 'utf8')
  return text.slice(0, text.search(/^(?!\/\/)/m))
}

/** The address at the end of a line such as `shop: listens on http://127.0.0.1:3000`. */
export async function addressIn(running: Running, pattern: RegExp): Promise<string> {
  return /http:\/\/\S+/.exec(await running.line(pattern))?.[0] ?? ''
}
