import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { endPool, openPool, rowsOf } from '../../src/store/postgres/driver.ts'

/** `AuthenticationOk` and `ReadyForQuery`: whoever connects is welcome. */
const welcome = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0, 0x5a, 0, 0, 0, 5, 0x49])

/** A server that goes away as soon as it is asked anything. */
async function aFleetingServer(t: TestContext): Promise<string> {
  const server = createServer((socket: Socket) => {
    socket.once('data', () => {
      socket.write(welcome)
      socket.once('data', () => socket.resetAndDestroy())
    })
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return `postgres://someone@127.0.0.1:${(server.address() as AddressInfo).port}/db`
}

test('a connection that ends while it is checked for a replica is a failed call, and no more', async (t) => {
  const pool = await openPool({ connectionString: await aFleetingServer(t), applicationName: 'test' }, 1)
  t.after(() => endPool(pool))
  for (let calls = 0; calls < 3; calls++) await assert.rejects(rowsOf(pool, 'SELECT 1', []))
})
