import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { openWatch } from './watch.ts'

/** `up` is from whoever connects (the hub) to the target (the edge), `down` is back. */
export type Direction = 'up' | 'down'

export type LinkShape = Readonly<{
  /** Half of it is added in each direction; order is kept. */
  roundTripMs: number
  /** null: as fast as it goes. */
  bytesPerSecond: number | null
  /**
   * Directions in which nothing gets through, neither bytes nor the end of a connection, and nobody is told: a half-open
   * link. When it is over, what is still connected goes on where it was, as it does with TCP.
   */
  dark: readonly Direction[]
  /** New connections are reset at once: nobody is there. */
  refuses: boolean
}>

export type LinkProxy = Readonly<{
  port: number
  shape(change: Partial<LinkShape>): void
  /**
   * Ends every connection and answers how many there were. What was on its way is gone; with `torn` that part of the next
   * bytes in line that ends in the middle of a message still gets through.
   */
  cut(how: 'rst' | 'fin', torn?: number): number
  /** Connections that have been accepted so far. */
  accepted(): number
  /** Bytes that got through in this direction so far. */
  passed(direction: Direction): number
  /** Resolves when this holds; looked at whenever something happened on the link. */
  until(holds: () => boolean): Promise<void>
  close(): Promise<void>
}>

const clear: LinkShape = { roundTripMs: 0, bytesPerSecond: null, dark: [], refuses: false }
/** So much may be on its way in one direction; more waits in the sender's socket. */
const underWayBytesMax = 4_194_304
/** A slow link passes bytes on in pieces of this time. */
const pieceMs = 20

/** A TCP proxy on loopback that behaves as badly as it is told. */
export async function openLinkProxy(targetPort: () => number): Promise<LinkProxy> {
  let shape = clear
  let accepted = 0
  const passed = { up: 0, down: 0 }
  const links = new Set<Link>()
  const watch = openWatch()
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    accepted += 1
    if (shape.refuses) socket.on('error', () => {}).resetAndDestroy()
    else {
      const link = openLink(socket, targetPort(), {
        shape: () => shape,
        passed: (direction, bytes) => {
          passed[direction] += bytes
          watch.look()
        },
        ended: () => {
          links.delete(link)
          watch.look()
        },
      })
      links.add(link)
    }
    watch.look()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')

  return {
    port: (server.address() as AddressInfo).port,
    shape(change) {
      shape = { ...shape, ...change }
      for (const link of links) link.reshaped()
    },
    cut(how, torn = 0) {
      const count = links.size
      for (const link of links) link.cut(how, torn)
      return count
    },
    accepted: () => accepted,
    passed: (direction) => passed[direction],
    until: watch.until,
    async close() {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      for (const link of links) link.cut('rst', 0)
      await closed
    },
  }
}

type Surroundings = Readonly<{
  shape: () => LinkShape
  passed: (direction: Direction, bytes: number) => void
  ended: () => void
}>
type Link = Readonly<{ reshaped(): void; cut(how: 'rst' | 'fin', torn: number): void }>

function openLink(near: Socket, targetPort: number, around: Surroundings): Link {
  const far = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  let open = true
  const end = (how: 'rst' | 'fin') => {
    if (!open) return
    open = false
    for (const socket of [near, far]) {
      // Node cannot reset what it has begun to shut down: the handle would stay, and the process never end.
      if (how === 'rst' && socket.writableEnded) socket.destroy()
      else if (how === 'rst') socket.resetAndDestroy()
      else {
        socket.end()
        // The other side may go on writing; nobody reads it any more.
        socket.resume()
      }
    }
    around.ended()
  }
  const flows = [flow('up', near, far, around, () => open, end), flow('down', far, near, around, () => open, end)]
  return {
    reshaped() {
      for (const { push } of flows) push()
    },
    cut(how, torn) {
      for (const { tear } of flows) tear(torn)
      end(how)
    },
  }
}

/** What is next in line: bytes, or how the sender's side came to its end. */
type Item = Readonly<{ dueAt: number; bytes: Buffer }> | Readonly<{ dueAt: number; end: 'rst' | 'fin' }>

function flow(
  direction: Direction,
  from: Socket,
  to: Socket,
  around: Surroundings,
  isOpen: () => boolean,
  end: (how: 'rst' | 'fin') => void,
) {
  const queue: Item[] = []
  let queuedBytes = 0
  let lastDueAt = 0
  let finished = false
  let timer: NodeJS.Timeout | undefined

  /** Each follows the one before it, after the time that its bytes take on the line and the way there. */
  const enqueue = (bytes: Buffer | null, how: 'rst' | 'fin' = 'fin') => {
    const { roundTripMs, bytesPerSecond } = around.shape()
    const takesMs = bytesPerSecond === null || bytes === null ? 0 : (bytes.length / bytesPerSecond) * 1_000
    const begunAt = Math.max(performance.now(), lastDueAt - roundTripMs / 2)
    lastDueAt = Math.max(lastDueAt, begunAt + takesMs + roundTripMs / 2)
    queue.push(bytes === null ? { dueAt: lastDueAt, end: how } : { dueAt: lastDueAt, bytes })
    queuedBytes += bytes?.length ?? 0
    if (queuedBytes > underWayBytesMax) from.pause()
    push()
  }

  const push = () => {
    clearTimeout(timer)
    for (;;) {
      const item = queue[0]
      if (item === undefined || !isOpen() || around.shape().dark.includes(direction)) return
      const waitMs = item.dueAt - performance.now()
      if (waitMs > 0) {
        timer = setTimeout(push, waitMs)
        return
      }
      if (to.writableNeedDrain) {
        to.once('drain', push)
        return
      }
      queue.shift()
      pass(item)
    }
  }

  const pass = (item: Item) => {
    if ('end' in item) {
      if (item.end === 'rst') end('rst')
      else to.end()
      return
    }
    queuedBytes -= item.bytes.length
    if (queuedBytes <= underWayBytesMax) from.resume()
    to.write(item.bytes)
    around.passed(direction, item.bytes.length)
  }

  from.on('data', (chunk: Buffer) => {
    if (!isOpen()) return
    const { bytesPerSecond } = around.shape()
    const pieceBytes = bytesPerSecond === null ? chunk.length : Math.max(1, (bytesPerSecond * pieceMs) / 1_000)
    for (let at = 0; at < chunk.length; at += pieceBytes) enqueue(chunk.subarray(at, at + pieceBytes))
  })
  from.on('end', () => {
    finished = true
    if (isOpen()) enqueue(null, 'fin')
  })
  from.on('error', () => {
    if (isOpen()) enqueue(null, 'rst')
  })
  from.on('close', () => {
    clearTimeout(timer)
    if (isOpen() && !finished) enqueue(null, 'rst')
    if (isOpen() && to.closed) end('fin')
  })

  return {
    push,
    tear(torn: number) {
      clearTimeout(timer)
      const item = queue[0]
      if (torn > 0 && item !== undefined && 'bytes' in item && to.writable) {
        to.write(item.bytes.subarray(0, Math.ceil(torn * (item.bytes.length - 1))))
      }
    },
  }
}
