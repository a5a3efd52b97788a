import { openInput, readAll } from './input.ts'
import type { Terminal } from './terminal.ts'

export type SecretFlag = Readonly<{ secret?: string }>

export const secretFlag = '--secret <secret|->'
export const secretFromStdin = '- reads it from stdin, where no list of processes shows it'

/** The secret that was said, or that stands on stdin. */
export async function secretFrom(terminal: Terminal, said: string | undefined): Promise<SecretFlag> {
  if (said === undefined) return {}
  if (said !== '-') return { secret: said }
  const bytes = await readAll(openInput(terminal, undefined))
  return { secret: bytes.toString('utf8').trim() }
}
