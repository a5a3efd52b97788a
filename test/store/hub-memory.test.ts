import assert from 'node:assert/strict'
import {
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import type { HubMemory } from '../../src/store/hub-memory.ts'
import { type HubMemorySettings, openHubMemory } from '../../src/store/sqlite/hub-memory-file.ts'
import { anEnd, hubMemoryContract } from '../contracts/hub-memory.ts'
import { isRoot, Scene } from './scene.ts'

const clock = { wall: Date.now, steady: Date.now, monotonic: Date.now }

async function newFile(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return join(folder, 'hub.db')
}

function open(t: TestContext, file: string, more: Partial<HubMemorySettings> = {}): HubMemory {
  const onDamage = ({ why }: { why: string }) => assert.fail(why)
  const memory = openHubMemory({ file, clock, onDamage, ...more })
  t.after(() => memory.close())
  return memory
}

hubMemoryContract('the memory file', async (t) => {
  const file = await newFile(t)
  return (limits = {}) => open(t, file, limits)
})

test('nobody else can read the memory', async (t) => {
  const file = await newFile(t)
  open(t, file).keep(anEnd())
  for (const name of [file, `${file}-wal`]) assert.equal(statSync(name).mode & 0o777, 0o600, name)
})

test('a second hub on the same memory is refused, told by whom, and does the first no harm', async (t) => {
  const file = await newFile(t)
  const first = open(t, file)
  assert.throws(() => open(t, file), {
    code: 'store_locked',
    message: new RegExp(`process ${process.pid}.* owns .*hub\\.db.*Each hub has a memory of its own`),
  })
  first.keep(anEnd())
  first.close()
  assert.deepEqual(open(t, file).find('dlv_1', 1), anEnd())
})

const damages: Readonly<Record<string, (file: string) => void>> = {
  'in the middle': (file) => overwrite(file, 4_096, statSync(file).size - 4_096, 0xa5),
  'cut short': (file) => truncateSync(file, 5_000),
  'begun with zeros': (file) => overwrite(file, 0, 4_096, 0),
  'begun with something else': (file) => overwrite(file, 0, 4_096, 0x41),
}
for (const [how, damage] of Object.entries(damages)) {
  test(`a memory that is damaged (${how}) is put aside, with a word about it, and begun anew`, async (t) => {
    const file = await newFile(t)
    const before = open(t, file)
    for (let n = 0; n < 100; n++) before.keep(anEnd({ delivery: `dlv_${n}` }))
    before.close()
    damage(file)
    const bytes = readFileSync(file)
    const told: string[] = []
    const memory = open(t, file, { onDamage: ({ aside, why }) => told.push(aside, why) })
    assert.equal(told[0], `${file}.damaged`)
    assert.deepEqual(readFileSync(`${file}.damaged`), bytes)
    memory.keep(anEnd())
    memory.close()
    assert.deepEqual(open(t, file).find('dlv_1', 1), anEnd())
  })
}

test('damage that shows while the memory is in use is put aside as well', async (t) => {
  const file = await newFile(t)
  const before = open(t, file)
  for (let n = 0; n < 2_000; n++) before.keep(anEnd({ delivery: `dlv_${n}` }))
  before.close()
  const told: string[] = []
  const memory = open(t, file, { onDamage: ({ aside }) => told.push(aside) })
  // Behind the back of the connection that has read it, all but the page with the schema.
  overwrite(file, 4_096, statSync(file).size - 4_096, 0xa5)
  const other = new DatabaseSync(file)
  other.exec('PRAGMA user_version = 2')
  other.close()
  for (let n = 5_000; told.length === 0 && n < 9_000; n++) memory.keep(anEnd({ delivery: `dlv_${n}` }))
  assert.deepEqual(told, [`${file}.damaged`])
  memory.keep(anEnd())
  assert.deepEqual(memory.find('dlv_1', 1), anEnd())
})

test("somebody else's file is refused and stays as it is", async (t) => {
  const text = await newFile(t)
  writeFileSync(text, 'dear diary')
  const database = await newFile(t)
  const db = new DatabaseSync(database)
  db.exec('CREATE TABLE theirs (n)')
  db.close()
  for (const file of [text, database]) {
    const bytes = readFileSync(file)
    for (const _ of ['first', 'again']) {
      assert.throws(() => open(t, file), { code: 'invalid', message: /is not the memory of a hub.*name another file/ })
    }
    assert.deepEqual(readFileSync(file), bytes)
    assert.ok(!existsSync(`${file}.damaged`))
  }
  assert.throws(() => open(t, tmpdir()), { message: /name another file/ })
})

test('a folder that is not there is named', async (t) => {
  const file = join(await newFile(t), 'a', 'b', 'hub.db')
  assert.throws(() => open(t, file), { code: 'store_missing' })
})

test('a full disk is told by its code, and it goes on when there is room', {
  skip: !isRoot && 'needs root',
}, async (t) => {
  const folder = await new Scene(t).tmpfs(256)
  const file = join(folder, 'hub.db')
  const memory = open(t, file)
  memory.keep(anEnd())
  const ballast = join(folder, 'ballast')
  writeFileSync(ballast, '')
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(1 << 20)), { code: 'ENOSPC' })
  const fill = (): void => {
    for (let n = 0; n < 100; n++) memory.keep(anEnd({ delivery: `dlv_full_${n}` }))
  }
  assert.throws(fill, { code: 'store_full' })
  truncateSync(ballast, 0)
  memory.probe()
  memory.keep(anEnd({ delivery: 'dlv_3' }))
  assert.deepEqual(memory.find('dlv_1', 1), anEnd())
  assert.notEqual(memory.find('dlv_3', 1), null)
  memory.close()
})

function overwrite(file: string, at: number, length: number, byte: number): void {
  const handle = openSync(file, 'r+')
  writeSync(handle, Buffer.alloc(length, byte), 0, length, at)
  closeSync(handle)
}
