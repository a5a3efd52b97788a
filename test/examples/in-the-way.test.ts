import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { describe, test } from 'node:test'
import { folderFor, serverFor } from '../cli/server.ts'
import { startExample } from './example.ts'

type Cleanup = Readonly<{ after: (fn: () => unknown) => void }>

async function takenPort(t: Cleanup): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return String((server.address() as { port: number }).port)
}

const nowhere = 'http://127.0.0.1:9'

describe('an example that something is in the way of says what, without a stack', () => {
  test('stripe-payments, where a server runs already', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const env = { PORT: new URL(server.url).port }
    const { code, stderr } = await startExample(t, 'stripe-payments', env, folderFor(t)).ended
    assert.equal(code, 1)
    assert.match(stderr, /could not start: .*in use[\s\S]*PORT=4810/)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })

  test('outbound-app, whose ports are taken', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const env = { POSTHORN_URL: server.url, CUSTOMER_PORT: await takenPort(t), SHOP_PORT: '0' }
    const { code, stderr } = await startExample(t, 'outbound-app', env).ended
    assert.equal(code, 1)
    assert.match(stderr, /cannot be used: .*EADDRINUSE.*CUSTOMER_PORT/)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })

  for (const name of ['outbound-app', 'inbound-github', 'stripe-payments/stripe.ts']) {
    test(`${name}, where no server runs`, async (t) => {
      const env = { POSTHORN_URL: nowhere, CUSTOMER_PORT: '0', SHOP_PORT: '0' }
      const { code, stderr } = await startExample(t, name, env, folderFor(t)).ended
      assert.equal(code, 1)
      assert.ok(stderr.includes(nowhere), stderr)
      assert.doesNotMatch(stderr, /\n {4}at /)
    })
  }

  test('inbound-github, where the server has no such source', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const { code, stderr } = await startExample(t, 'inbound-github', { POSTHORN_URL: server.url }).ended
    assert.equal(code, 1)
    assert.match(stderr, /Is there a source github-example/)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })
})
