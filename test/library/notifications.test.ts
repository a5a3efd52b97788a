import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fatal, type Notification, PosthornError } from '../../src/index.ts'
import { posthornFor } from './scene.ts'

test('a callback is told of dead letters, and a handler of posthorn.* gets them as events', async (t) => {
  const posthorn = await posthornFor(t)
  const told = Promise.withResolvers<Notification>()
  const handled = Promise.withResolvers<unknown>()
  const end = posthorn.onNotification(told.resolve)
  posthorn.handle('order.*', () => {
    throw fatal('no such order')
  })
  posthorn.handle('posthorn.*', (event) => handled.resolve(event.data))
  await posthorn.send('order.created', { id: 1 })
  const notification = await told.promise
  assert.ok(notification.type === 'posthorn.dead_letters')
  assert.deepEqual([notification.tenant, notification.count], ['default', 1])
  const { type: _, tenant: __, ...data } = notification
  assert.deepEqual(await handled.promise, data)
  end()
})

test('nobody can send what looks like a notification', async (t) => {
  const posthorn = await posthornFor(t)
  for (const sending of [
    () => posthorn.send('posthorn.dead_letters', {}),
    () => posthorn.sendBatch([{ type: 'posthorn.x', data: 1 }]),
  ]) {
    await assert.rejects(sending, (error) => {
      assert.ok(error instanceof PosthornError)
      assert.match(error.message, /must not begin with posthorn\./)
      return true
    })
  }
})
