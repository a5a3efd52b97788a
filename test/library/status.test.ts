import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { fatal, openPosthorn } from '../../src/index.ts'
import { tempFolder } from '../support/sqlite.ts'

test('the library tells its status, and that of an endpoint, as REST does', async (t) => {
  const folder = await tempFolder()
  const posthorn = await openPosthorn({ database: `sqlite:${join(folder.path, 'posthorn.db')}`, logLevel: 'silent' })
  t.after(async () => {
    await posthorn.close()
    await folder.remove()
  })
  posthorn.handle('order.*', () => {
    throw fatal('no such order')
  })
  assert.equal((await posthorn.status()).state, 'ok')
  const { promise, resolve } = Promise.withResolvers<void>()
  posthorn.on('attempt.settled', () => resolve())
  await posthorn.send('order.created', { id: 1 })
  await promise
  const status = await posthorn.status({ limit: 1 })
  assert.deepEqual([status.state, status.deadLetters.last24h], ['trouble', 1])
  const [item] = status.attention
  assert.deepEqual([item?.kind, item?.why, item?.url, item?.successRate], ['handler', 'dead_letters', null, 0])
  const stats = await posthorn.endpoints.stats(item?.endpointId ?? '')
  assert.deepEqual([stats?.why, stats?.lastError], ['dead_letters', item?.lastError])
  assert.equal(await posthorn.endpoints.stats('ep_none'), null)
  await assert.rejects(posthorn.status({ limit: 0 }), /limit must be a whole number/)
})
