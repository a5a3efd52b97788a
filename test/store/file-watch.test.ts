import assert from 'node:assert/strict'
import { copyFile, rename, rm } from 'node:fs/promises'
import { describe, type TestContext, test } from 'node:test'
import { anEvent } from '../support/builders.ts'
import { Scene } from './scene.ts'

const anEventAlone = () => ({ event: anEvent(), idempotency: null, deliveries: [] })

async function stage(t: TestContext) {
  const scene = new Scene(t)
  const file = await scene.newFile()
  const { promise: fatal, resolve: onFatal } = Promise.withResolvers<Error>()
  const store = await scene.open(file, { onFatal })
  await store.append([anEventAlone()])
  return { file, store, fatal }
}

describe('while the store is open', () => {
  const harms: readonly (readonly [what: string, how: RegExp, harm: (file: string) => Promise<void>])[] = [
    ['the database file is deleted', /posthorn\.db was deleted/, (file) => rm(file)],
    ['its log is deleted', /posthorn\.db-wal was deleted/, (file) => rm(`${file}-wal`)],
    [
      'the database file is replaced',
      /posthorn\.db was replaced/,
      async (file) => {
        await copyFile(file, `${file}.restored`)
        await rename(`${file}.restored`, file)
      },
    ],
  ]
  for (const [what, how, harm] of harms) {
    test(`${what}: no write is acknowledged any more, and the owner is told why`, async (t) => {
      const { file, store, fatal } = await stage(t)
      await harm(file)
      await assert.rejects(store.append([anEventAlone()]), { code: 'store_unavailable' })
      const error = await fatal
      assert.match(error.message, how)
      assert.match(error.message, /restore a backup, and start Posthorn again/)
      assert.equal(store.health().writable, false)
      await assert.rejects(store.append([anEventAlone()]), { code: 'store_unavailable' })
    })
  }

  test('moving the log into the file is no harm', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    await store.append([anEventAlone()])
    scene.plain(file).exec('PRAGMA wal_checkpoint(TRUNCATE)')
    const kept = anEventAlone()
    await store.append([kept])
    assert.ok(await store.getEvent(kept.event.id))
  })
})
