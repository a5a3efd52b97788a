// The real server, started by the command line in a folder of its own, and an endpoint for it to deliver to.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openSink, type Received } from '../../src/cli/open-sink.ts'
import { readScript } from '../../src/cli/sink-script.ts'
import { type Options, posthorn, type Result, type Running, start } from './command.ts'

export type Server = Readonly<{
  url: string
  running: Running
  /** Runs a command against this server. */
  cli: (args: readonly string[], options?: Options) => Promise<Result>
  /** The same, for commands that have to work; answers what `-o json` printed. */
  json: <T = Record<string, unknown>>(args: readonly string[], options?: Options) => Promise<T>
}>

type Cleanup = Readonly<{ after: (fn: () => unknown) => void }>

export function folderFor(t: Cleanup): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-cli-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export async function serverFor(
  t: Cleanup,
  cwd: string,
  flags: readonly string[] = [],
  env: Options['env'] = {},
): Promise<Server> {
  const running = start(['start', '--port', '0', '--allow-private', '127.0.0.1/32', ...flags], { cwd, env })
  t.after(() => running.stop('SIGKILL'))
  const url = /http:\/\/\S+/.exec(await running.line(/^Posthorn listens on/))?.[0] ?? ''
  const cli: Server['cli'] = (args, options = {}) =>
    posthorn(args, { ...options, env: { POSTHORN_URL: url, ...options.env } })
  const json = async <T>(args: readonly string[], options?: Options): Promise<T> => {
    const { code, stdout, stderr } = await cli([...args, '-o', 'json'], options)
    if (code !== 0) throw new Error(`posthorn ${args.join(' ')} ended with ${code}:\n${stderr}`)
    return JSON.parse(stdout)
  }
  return { url, running, cli, json }
}

/** A sink in this process; `received` grows with every request. */
export async function sinkFor(t: Cleanup, script = '200') {
  const received: Received[] = []
  let arrived = Promise.withResolvers<Received>()
  const read = readScript(script)
  if ('problem' in read) throw new Error(read.problem)
  const sink = await openSink({
    host: '127.0.0.1',
    port: 0,
    script: read.script,
    delayMs: 0,
    keys: null,
    onRequest: (request) => {
      received.push(request)
      arrived.resolve(request)
      arrived = Promise.withResolvers()
    },
  })
  t.after(() => sink.close())
  return { url: sink.url, received, next: () => arrived.promise }
}
