import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

export type ServerProcess = Readonly<{
  url: string
  child: ChildProcess
  /** What it has said on stderr so far. */
  said: () => string
  kill(): Promise<void>
  /** SIGTERM; answers the exit code. */
  stop(): Promise<number | null>
}>

/** Starts the real server as a process of its own and waits until it answers. */
export async function startServer(options: {
  /** A file, or the URL of a Postgres database. */
  database: string
  port?: number
  env?: Record<string, string>
  /** A command in front of it that becomes the server, such as one that enters a network namespace. */
  enter?: readonly string[]
}): Promise<ServerProcess> {
  const database = options.database.startsWith('postgres:') ? options.database : `sqlite:${options.database}`
  const args = [main, 'start', '--port', String(options.port ?? 0), '--database', database]
  const env = { ...process.env, POSTHORN_ALLOW_PRIVATE: '127.0.0.0/8', POSTHORN_LOG_LEVEL: 'warn', ...options.env }
  const [command, ...before] = [...(options.enter ?? []), process.execPath]
  const child = spawn(command ?? '', [...before, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  const url = await new Promise<string>((resolve, reject) => {
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text
      const found = /listens on (http:\S+)/.exec(said)
      if (found?.[1] !== undefined) resolve(found[1])
    })
    child.once('exit', (code, signal) => reject(new Error(`the server ended (${code ?? signal}):\n${said}`)))
  })
  const exited = once(child, 'exit')
  return {
    url,
    child,
    said: () => said,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async stop() {
      child.kill('SIGTERM')
      const [code] = await exited
      return code
    },
  }
}

export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}
