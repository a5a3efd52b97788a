import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { link, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { migrateFile } from '../../src/store/sqlite/migrate-file.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { integrityOf, type Other, Scene, until } from './scene.ts'

async function ownerOf(scene: Scene, file: string): Promise<Other> {
  const owner = scene.other('owner.ts', file)
  assert.equal(await owner.line(), 'open')
  return owner
}

const anEventAlone = () => ({ ...anArrival(anEndpoint()), deliveries: [] })

describe('a database locked by another program', () => {
  test('refuses writes with the reason, keeps none of them, and goes on by itself', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file, { busyTimeoutMs: 20 })
    const [before, during, after] = [anEventAlone(), anEventAlone(), anEventAlone()]
    await store.append([before])
    const holder = scene.other('lock-holder.ts', file)
    assert.equal(await holder.line(), 'held')

    await assert.rejects(store.append([during]), { code: 'store_locked', message: /locked by another program/ })
    assert.equal(store.health().writable, false)
    assert.match(store.health().problem ?? '', /locked by another program/)
    assert.ok(await store.getEvent(before.event.id), 'reads are not hindered')

    await holder.end()
    await until(t, () => store.health().writable)
    assert.equal(store.health().problem, null)
    await store.append([after])
    assert.equal(await store.getEvent(during.event.id), null)
    assert.ok(await store.getEvent(after.event.id))
    await store.close()
    assert.equal(integrityOf(file), 'ok')
  })

  test('is refused at the start as well', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await (await scene.open(file)).close()
    const holder = scene.other('lock-holder.ts', file)
    assert.equal(await holder.line(), 'held')
    await assert.rejects(scene.open(file, { busyTimeoutMs: 20 }), { code: 'store_locked' })
    await holder.end()
    await scene.open(file)
  })

  test('waits for a lock that is soon given back', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const store = await scene.open(file)
    const holder = scene.other('lock-holder.ts', file)
    assert.equal(await holder.line(), 'held')
    const [kept] = await Promise.all([store.append([anEventAlone()]), holder.end()])
    assert.equal(kept.kind, 'kept')
    assert.equal(store.health().writable, true)
  })
})

describe('the owner of a database', () => {
  test('is named to a second one, which is refused and does it no harm', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const owner = await ownerOf(scene, file)
    const refusal = {
      code: 'store_locked',
      message: new RegExp(`process ${owner.pid}, since \\d{4}-.*One server owns`),
    }
    await assert.rejects(scene.open(file), refusal)
    await assert.rejects(migrateFile(file, { dryRun: false }), refusal)
    owner.tell('go on')
    assert.match(await owner.line(), /^evt_/)
  })

  test('is found behind another name of the file', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    await ownerOf(scene, file)
    const link = join(await scene.folder(), 'link.db')
    await symlink(file, link)
    await assert.rejects(scene.open(link), { code: 'store_locked', message: /One server owns/ })
  })

  test('may be this very process', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const first = await scene.open(file)
    await assert.rejects(scene.open(file), { code: 'store_locked', message: new RegExp(`process ${process.pid}`) })
    await first.append([anEventAlone()])
  })

  test('killed with -9, leaves no lock behind, and the next finds what was acknowledged', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const owner = await ownerOf(scene, file)
    const ids: string[] = []
    for (let i = 0; i < 5; i++) {
      owner.tell('go on')
      ids.push(await owner.line())
    }
    await owner.kill()
    const next = await scene.open(file)
    for (const id of ids) assert.ok(await next.getEvent(id), id)
  })

  test('is not replaced by a second one when its lock file is deleted', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const owner = await ownerOf(scene, file)
    // As a supervisor would: it tries again. Once the owner has its lock back, it is named.
    const refusal = { code: 'store_locked', message: /Another (program has .* open|Posthorn \(process)/ }
    await rm(`${file}-owner`)
    for (let starts = 0; starts < 5; starts++) await assert.rejects(scene.open(file), refusal)
    await owner.kill()
    await scene.open(file)
  })

  test('takes its lock again when the lock file was deleted', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const owner = await ownerOf(scene, file)
    await rm(`${file}-owner`)
    await until(t, () => existsSync(`${file}-owner`))
    const named = { code: 'store_locked', message: new RegExp(`process ${owner.pid}, since`) }
    await assert.rejects(scene.open(file), named)
  })

  test('ends when another program took its lock meanwhile', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const { promise: fatal, resolve: onFatal } = Promise.withResolvers<Error>()
    await scene.open(file, { onFatal })
    const other = await scene.newFile()
    const owner = await ownerOf(scene, other)
    // Or it might look first, take a new lock where its own was, and give up the one that was moved.
    process.kill(owner.pid, 'SIGSTOP')
    await rename(`${other}-owner`, `${file}-owner`)
    assert.match((await fatal).message, /Another Posthorn \(process \d+/)
  })

  test('is found behind a hard link in another folder', async (t) => {
    const scene = new Scene(t)
    const file = await scene.newFile()
    const owner = await ownerOf(scene, file)
    const other = join(await scene.folder(), 'posthorn.db')
    await link(file, other)
    const refusal = { code: 'store_locked', message: new RegExp(`${other} is a hard link of ${file}`) }
    await assert.rejects(scene.open(other), refusal)
    // What was acknowledged may still be in the log beside the first name.
    await owner.kill()
    await assert.rejects(scene.open(other), refusal)
    await (await scene.open(file)).close()
    await rm(file)
    await rename(`${file}.key`, `${other}.key`)
    await scene.open(other)
  })
})
