import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { LossyDisk, type PowerCut, whyNoPowerCut } from '../support/power-cut.ts'
import { itemsOf } from '../support/registry.ts'
import { openStoreFile } from '../support/sqlite.ts'
import { integrityOf } from './scene.ts'

const script = join(import.meta.dirname, 'power-cut-writer.ts')
/** Odd, so that cuts before a sync and after it take turns. */
const syncsBetweenCuts = 3
const cutsAtOnce = 2

// On CI the test runs, and fails if it cannot.
const reason = whyNoPowerCut()
const skip = reason !== null && !process.env.CI ? reason : false

async function aDisk(t: TestContext): Promise<LossyDisk> {
  const disk = await LossyDisk.make()
  t.after(() => disk.remove())
  return disk
}

const acknowledged = (cut: PowerCut) => cut.said.filter((line) => line.startsWith('evt_'))

/** Opens what the power cut left, as the next start would; answers which of the acknowledged events are gone. */
async function lostAfter(cut: PowerCut, folder: string): Promise<readonly string[]> {
  const file = join(folder, 'posthorn.db')
  const store = await openStoreFile(file)
  const lost: string[] = []
  try {
    for (const id of acknowledged(cut)) {
      const event = await store.getEvent(id)
      const { items } = await store.listDeliveries({ eventId: id, limit: 5 })
      if (event === null || items.length !== 1) lost.push(id)
    }
    if (cut.said.includes('open')) assert.equal((await itemsOf(store, 'endpoint')).length, 1)
  } finally {
    await store.close()
  }
  assert.equal(integrityOf(file), 'ok')
  return lost
}

const contentsOf = (folder: string) => readdirSync(folder).map((name) => readFileSync(join(folder, name), 'base64'))

describe('a power cut', { skip }, () => {
  test('loses no acknowledged event, whenever it comes', async (t) => {
    const disk = await aDisk(t)
    let cutAt = 1
    let torn = 0
    const cuts: PowerCut[] = []
    const cutAndLook = async (): Promise<void> => {
      for (;;) {
        const at = cutAt
        cutAt += syncsBetweenCuts
        const cut = await disk.run(script, { cutAt: at })
        if (cut.ended) return
        cuts.push(cut)
        const folders = [cut.survivors(), cut.tornSurvivors(at), cut.tornSurvivors(at + 1_000)]
        const [clean, ...mixed] = folders.map(contentsOf)
        torn += mixed.filter((contents) => contents.join() !== clean?.join()).length
        for (const folder of folders) assert.deepEqual(await lostAfter(cut, folder), [], `cut at sync ${at}: ${folder}`)
      }
    }
    await Promise.all(Array.from({ length: cutsAtOnce }, cutAndLook))
    assert.ok(cuts.length >= 10, `only ${cuts.length} cuts`)
    assert.ok(cuts.filter((cut) => acknowledged(cut).length > 0).length >= 5, 'most cuts come before the first event')
    assert.ok(torn >= 10, `only ${torn} of the disks were torn`)
  })

  test('would lose them if syncs were lies: the test above can fail', async (t) => {
    const disk = await aDisk(t)
    const cut = await disk.run(script, { cutAt: 36, mayLie: true })
    assert.ok(acknowledged(cut).length >= 10)
    assert.deepEqual(await lostAfter(cut, cut.survivors()), acknowledged(cut))
  })
})
