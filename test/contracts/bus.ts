import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Bus } from '../../src/shared-state/bus.ts'
import { eventually } from '../support/eventually.ts'

/** Opens what one process has of the bus; all that one test opens share it. Closed when the test ends. */
export type OpenBuses = (t: TestContext) => Promise<() => Promise<Bus>>

export type HeardBus = Readonly<{ bus: Bus; heard: string[]; until(count: number): Promise<true> }>

export function listening(bus: Bus): HeardBus {
  const heard: string[] = []
  bus.onText((text) => heard.push(text))
  const until = (count: number) =>
    eventually(`${count} texts arrive`, async () => (heard.length >= count ? true : null)).catch((error) => {
      assert.fail(`${error.message} Heard so far: ${JSON.stringify(heard).slice(0, 500)}`)
    })
  return { bus, heard, until }
}

/** Resolves when what the one publishes reaches the other: adapters may connect in the background. */
export async function connected(from: HeardBus, to: HeardBus): Promise<void> {
  await eventually('they are connected', async () => {
    await from.bus.publish([`hello ${Math.random()}`])
    return to.heard.some((text) => text.startsWith('hello')) ? true : null
  })
}

/** Without the words by which it was found out that they are connected. */
export function saidTo({ heard }: HeardBus): readonly string[] {
  return heard.filter((text) => !text.startsWith('hello'))
}

async function open(t: TestContext, opens: OpenBuses, count: number): Promise<readonly HeardBus[]> {
  const one = await opens(t)
  const all = await Promise.all(Array.from({ length: count }, async () => listening(await one())))
  for (const from of all) for (const to of all) await connected(from, to)
  return all
}

/** The last text of a test: what was said before it has arrived when it has, or never will. */
async function allSaid(from: HeardBus, to: HeardBus): Promise<readonly string[]> {
  await from.bus.publish(['end'])
  await eventually('the end arrives', async () => (to.heard.includes('end') ? true : null))
  return saidTo(to).filter((text) => text !== 'end')
}

/** The promises of the port: every adapter passes this suite unchanged. */
export function busContract(name: string, opens: OpenBuses): void {
  describe(`${name}: bus`, () => {
    test('gives all processes what one publishes, itself included, once and in its order', async (t) => {
      const all = await open(t, opens, 3)
      const [first] = all
      assert.ok(first !== undefined)
      assert.equal(await first.bus.publish(['a', 'b', '"ö" ✓ \n \u0000']), true)
      assert.equal(await first.bus.publish(['c']), true)
      for (const each of all) {
        const said = await allSaid(first, each)
        assert.equal(said.length, 4)
        assert.deepEqual([said[0], said[1], said[3]], ['a', 'b', 'c'])
        assert.match(said[2] ?? '', /^"ö" ✓ \n .$/su)
      }
    })

    test('keeps the order of what one publishes without waiting', async (t) => {
      const [here, there] = await open(t, opens, 2)
      assert.ok(here !== undefined && there !== undefined)
      const texts = Array.from({ length: 200 }, (_, at) => `text ${at}`)
      await Promise.all(texts.map((text) => here.bus.publish([text])))
      assert.deepEqual(await allSaid(here, there), texts)
    })

    test('carries several texts that are as long as they may be', async (t) => {
      const [here, there] = await open(t, opens, 2)
      assert.ok(here !== undefined && there !== undefined)
      const { textBytesMax } = here.bus
      const texts = ['x', 'y', 'z'].map((letter) => letter.repeat(textBytesMax))
      assert.equal(await here.bus.publish(texts), true)
      assert.deepEqual(await allSaid(here, there), texts)
    })

    test('says nothing to a process that has closed it, and takes nothing from it', async (t) => {
      const [here, there, closed] = await open(t, opens, 3)
      assert.ok(here !== undefined && there !== undefined && closed !== undefined)
      await closed.bus.close()
      await closed.bus.close()
      await here.bus.publish(['after'])
      assert.deepEqual(await allSaid(here, there), ['after'])
      assert.deepEqual(saidTo(closed), [])
    })
  })
}
