// Follows a page of the documentation as a reader would: runs its commands and compares what they print.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'

type Block = Readonly<{ language: string; text: string; line: number }>
export type Step = Readonly<{
  line: number
  commands: string
  /** The number of the terminal in which it goes on running; null: it ends. */
  terminal: string | null
  /** What is shown below the commands; null: nothing. */
  shown: string | null
}>

const root = path.join(import.meta.dirname, '../..')
const waitMsMax = 60_000
/** The ports that the pages speak of; each walk has others in their place. */
const ports = ['4800', '4900', '4901', '4902']

/** `until`: the heading at which the reader stops. */
export function stepsOf(page: string, until?: string): readonly Step[] {
  const text = readFileSync(path.join(root, page), 'utf8')
  const end = until === undefined ? text.length : text.indexOf(`\n${until}\n`)
  if (end < 0) throw new Error(`${page} has no ${until}`)
  const blocks = blocksOf(text.slice(0, end))
  return blocks.flatMap(({ language, text: commands, line }, index) => {
    if (language !== 'sh') return []
    const next = blocks[index + 1]
    const shown = next?.language === 'text' ? next.text : null
    return stepsIn(commands).map((step) => ({ line, ...step, shown }))
  })
}

/** A block is for one terminal, which its first line names; or each of its lines goes on running in one of its own. */
function stepsIn(commands: string): readonly Pick<Step, 'commands' | 'terminal'>[] {
  const lines = commands.trimEnd().split('\n')
  const terminals = lines.map((line) => /^(?:npm start|bin\/posthorn sink)\b.*# terminal (\d+)/.exec(line)?.[1])
  if (terminals.every((terminal) => terminal !== undefined)) {
    return lines.map((line, index) => ({ commands: `${line}\n`, terminal: terminals[index] ?? null }))
  }
  return [{ commands, terminal: /^# terminal (\d+)/.exec(commands)?.[1] ?? null }]
}

function blocksOf(page: string): readonly Block[] {
  return [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1] ?? '',
    text: match[2] ?? '',
    line: page.slice(0, match.index).split('\n').length,
  }))
}

/** A checkout of its own as far as the page can see: `bin/posthorn`, an empty folder, free ports. */
export class Walk {
  readonly #folder: string
  readonly #ports: ReadonlyMap<string, string>
  readonly #running = new Map<string, ChildProcess>()

  private constructor(folder: string, free: ReadonlyMap<string, string>) {
    this.#folder = folder
    this.#ports = free
  }

  static async begin(folder: string): Promise<Walk> {
    mkdirSync(path.join(folder, 'bin'))
    const command = path.join(folder, 'bin/posthorn')
    const main = path.join(root, 'src/cli/main.ts')
    writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' --conditions=posthorn-source '${main}' "$@"\n`)
    chmodSync(command, 0o755)
    const free = await Promise.all(ports.map(async (port) => [port, await freePort()] as const))
    return new Walk(folder, new Map(free))
  }

  /** What the step printed, as the page would show it. A reader who only looks will look again until it is there. */
  async take(step: Step): Promise<string> {
    const commands = this.#local(step.commands.replaceAll(/npm start(?: --)?(?= |$)/gm, 'bin/posthorn start'))
    if (step.terminal !== null) {
      await this.#background(step.terminal, commands)
      return ''
    }
    const onlyLooks = /^(?:bin\/posthorn \w+ (?:list|show)\b.*\n)+$/.test(commands)
    const endsAt = performance.now() + waitMsMax
    for (;;) {
      const printed = this.#back(await this.#finish(commands))
      const isThere = missingLines(step.shown ?? '', printed).length === 0
      if (isThere || !onlyLooks || performance.now() > endsAt) return printed
    }
  }

  async end(): Promise<void> {
    for (const child of this.#running.values()) await stop(child)
  }

  #spawn(commands: string): ChildProcess {
    const port = this.#ports.get('4800') ?? ''
    const env = { ...process.env, POSTHORN_PORT: port, POSTHORN_URL: `http://127.0.0.1:${port}`, NO_COLOR: '1' }
    return spawn('bash', ['-c', `exec 2>&1\n${commands}`], { cwd: this.#folder, env })
  }

  async #finish(commands: string): Promise<string> {
    const child = this.#spawn(commands)
    const timer = setTimeout(() => child.kill('SIGKILL'), waitMsMax)
    let text = ''
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    await once(child, 'close')
    clearTimeout(timer)
    return text
  }

  async #background(terminal: string, commands: string): Promise<void> {
    const before = this.#running.get(terminal)
    if (before !== undefined) await stop(before)
    const child = this.#spawn(commands.replace(/^(?=bin\/)/m, 'exec '))
    this.#running.set(terminal, child)
    let text = ''
    const signal = AbortSignal.timeout(waitMsMax)
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      child.emit('text')
    })
    while (!/listens on/.test(text)) {
      if (child.exitCode !== null) throw new Error(`terminal ${terminal} ended:\n${text}`)
      await Promise.race([once(child, 'text', { signal }), once(child, 'close', { signal })])
    }
  }

  #local(text: string): string {
    return [...this.#ports].reduce((changed, [said, used]) => changed.replaceAll(said, used), text)
  }

  #back(text: string): string {
    return [...this.#ports].reduce((changed, [said, used]) => changed.replaceAll(used, said), text)
  }
}

/** The lines that the page shows and that did not come, in their order; `…` stands for anything. */
export function missingLines(shown: string, printed: string): readonly string[] {
  const lines = printed.split('\n').map(squeezed)
  let from = 0
  return shown
    .split('\n')
    .map(squeezed)
    .filter((line) => {
      if (line === '') return false
      const pattern = new RegExp(`^${line.split('…').map(RegExp.escape).join('.*')}$`)
      const at = lines.findIndex((text, index) => index >= from && pattern.test(text))
      if (at >= 0) from = at + 1
      return at < 0
    })
}

function squeezed(line: string): string {
  return line.replace(/\s+/g, ' ').trim()
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'close')
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return String(port)
}
