import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { describe, it, type TestContext } from 'node:test'
import { type LinkProxy, openLinkProxy } from './link-proxy.ts'

describe('the proxy that stands for a bad link', () => {
  it('passes bytes both ways, in order, also with a delay', async (t) => {
    const { proxy, near, far } = await scene(t)
    proxy.shape({ roundTripMs: 20 })
    near.write('one ')
    near.write('two')
    assert.equal(await read(far, 7), 'one two')
    far.write('three')
    assert.equal(await read(near, 5), 'three')
    assert.deepEqual([proxy.passed('up'), proxy.passed('down')], [7, 5])
  })

  it('resets both sides, or ends them cleanly', async (t) => {
    const reset = await scene(t)
    const errors = Promise.all([once(reset.near, 'error'), once(reset.far, 'error')])
    assert.equal(reset.proxy.cut('rst'), 1)
    const codes = (await errors).map(([error]) => (error as NodeJS.ErrnoException).code)
    assert.deepEqual(codes, ['ECONNRESET', 'ECONNRESET'])

    const ended = await scene(t)
    const ends = Promise.all([once(ended.near.resume(), 'end'), once(ended.far.resume(), 'end')])
    assert.equal(ended.proxy.cut('fin'), 1)
    await ends
    assert.equal(ended.proxy.cut('rst'), 0)
  })

  it('goes dark without telling anybody, and goes on where it was', async (t) => {
    const { proxy, near, far } = await scene(t)
    proxy.shape({ dark: ['up'] })
    near.write('unheard')
    far.write('heard')
    assert.equal(await read(near, 5), 'heard')
    assert.equal(proxy.passed('up'), 0)
    assert.equal(far.read(), null)
    proxy.shape({ dark: [] })
    assert.equal(await read(far, 7), 'unheard')
  })

  it('loses what was on its way when it is cut while dark', async (t) => {
    const { proxy, near, far } = await scene(t)
    proxy.shape({ dark: ['up'] })
    far.write('read')
    near.write('lost')
    await read(near, 4)
    const ended = once(far.resume(), 'end')
    proxy.cut('fin')
    await ended
    assert.equal(proxy.passed('up'), 0)
  })

  it('does not tell in the dark that a side has gone', async (t) => {
    const { proxy, near, far } = await scene(t)
    proxy.shape({ dark: ['up', 'down'] })
    near.destroy()
    await once(near, 'close')
    assert.equal(far.readableEnded || far.destroyed, false)
    const gone = Promise.race([once(far.resume(), 'end'), once(far, 'error')])
    proxy.shape({ dark: [] })
    await gone
  })

  it('is slow when told to, and loses nothing by it', async (t) => {
    const { proxy, near, far } = await scene(t)
    proxy.shape({ bytesPerSecond: 200_000 })
    near.write('x'.repeat(20_000))
    const beganAt = performance.now()
    assert.equal((await read(far, 20_000)).length, 20_000)
    // Far below the 100 ms that it takes: this is about whether the rate is kept at all.
    assert.ok(performance.now() - beganAt > 50)
  })

  it('refuses new connections when told to', async (t) => {
    const { proxy } = await scene(t)
    proxy.shape({ refuses: true })
    const [error] = await once(connect(proxy.port, '127.0.0.1').resume(), 'error')
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET')
  })

  it('resets who connects while there is nobody behind it', async (t) => {
    const proxy = await openLinkProxy(() => 1)
    t.after(() => proxy.close())
    const [error] = await once(connect(proxy.port, '127.0.0.1').resume(), 'error')
    assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET')
  })
})

async function scene(t: TestContext): Promise<{ proxy: LinkProxy; near: Socket; far: Socket }> {
  const target = createServer().listen(0, '127.0.0.1')
  await once(target, 'listening')
  const proxy = await openLinkProxy(() => (target.address() as AddressInfo).port)
  const connected = once(target, 'connection')
  const near = connect(proxy.port, '127.0.0.1')
  const [far] = (await connected) as [Socket]
  // What is not expected by a test shows in what it waits for.
  for (const socket of [near, far]) socket.on('error', () => {})
  t.after(async () => {
    near.destroy()
    far.destroy()
    await proxy.close()
    target.close()
  })
  return { proxy, near, far }
}

async function read(socket: Socket, length: number): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  let text = ''
  const take = (chunk: Buffer) => {
    text += chunk.toString()
    if (text.length >= length) resolve(text)
  }
  socket.on('data', take)
  return await promise.finally(() => socket.pause().off('data', take))
}
