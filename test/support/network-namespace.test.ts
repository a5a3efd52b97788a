import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { noNamespaces, noNetem, openNetworkNamespace } from './network-namespace.ts'

const echo = `
  const server = require('node:net').createServer((socket) => socket.pipe(socket))
  server.listen(0, '0.0.0.0', () => console.log(server.address().port))`

describe('a network namespace of our own', () => {
  it('loses packets without a word while its link is down, and the other link stays', {
    skip: skip(noNamespaces()),
  }, async (t) => {
    const namespace = openNetworkNamespace('test')
    t.after(namespace.remove)
    const [command = '', ...args] = namespace.enter
    const child = spawn(command, [...args, process.execPath, '-e', echo], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    const port = Number(line.toString())
    const bad = connect(port, namespace.link.inside)
    const good = connect(port, namespace.control)
    t.after(() => {
      bad.destroy()
      good.destroy()
    })
    assert.equal(await echoed(bad, 'one'), 'one')
    namespace.linkUp(false)
    const answer = echoed(bad, 'two')
    assert.equal(await echoed(good, 'still here'), 'still here')
    assert.equal(bad.destroyed, false)
    namespace.linkUp(true)
    assert.equal(await answer, 'two')
  })

  it('carries bytes over a link that loses every fifth packet', { skip: skip(noNetem()) }, async (t) => {
    const namespace = openNetworkNamespace('test')
    t.after(namespace.remove)
    namespace.netem({ roundTripMs: 10, lossPercent: 20 })
    const server = createServer((socket) => socket.pipe(socket)).listen(0, namespace.link.outside)
    t.after(() => server.close())
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    const [command = '', ...args] = namespace.enter
    const talk = `const s = require('node:net').connect(${port}, '${namespace.link.outside}', () => s.end('x'.repeat(50000)))
      let n = 0; s.on('data', (d) => { n += d.length }).on('end', () => process.exit(n === 50000 ? 0 : 1))`
    const child = spawn(command, [...args, process.execPath, '-e', talk], { stdio: 'inherit' })
    t.after(() => child.kill('SIGKILL'))
    assert.deepEqual(await once(child, 'exit'), [0, null])
  })
})

function skip(reason: string | null): string | false {
  return reason ?? false
}

async function echoed(socket: Socket, text: string): Promise<string> {
  const heard = once(socket, 'data')
  socket.write(text)
  return String((await heard)[0])
}
