import { once } from 'node:events'
import { connect } from 'node:net'
import { findTool } from '../debian.ts'
import { ownFolder } from './folders.ts'
import { ServiceMissing } from './missing.ts'
import { freePort } from './port.ts'
import { Service } from './service.ts'

export type RedisOptions = Readonly<{
  /** Where its data goes; by default below `.runtime/`. */
  folder?: string
  /** Lines of redis.conf. */
  settings?: Readonly<Record<string, string | number>>
}>

export function redisProgram(): string {
  const tool = findTool('redis-server', 'redis-server')
  if (tool.kind === 'found') return tool.path
  throw new ServiceMissing(tool.why)
}

/** A Redis on loopback that keeps nothing on disk unless `settings` say so. */
export async function startRedis({ folder: parent, settings = {} }: RedisOptions = {}): Promise<Service> {
  const command = redisProgram()
  const port = await freePort()
  const folder = ownFolder(null, 'redis', parent)
  const all = { port, bind: '127.0.0.1', dir: folder, save: '', appendonly: 'no', ...settings }
  return Service.open({
    name: 'Redis',
    url: `redis://127.0.0.1:${port}`,
    port,
    command,
    args: Object.entries(all).flatMap(([name, value]) => [`--${name}`, String(value)]),
    folder,
    account: null,
    answers: () => answers(port),
    stopSignal: 'SIGTERM',
    quitSignal: 'SIGKILL',
  })
}

/** One with a password refuses the question, which is an answer too. While it loads its data it says -LOADING. */
async function answers(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    socket.write('PING\r\n')
    const [bytes] = await once(socket, 'data')
    return /^(?:\+PONG|-NOAUTH)/.test(String(bytes))
  } finally {
    socket.destroy()
  }
}
