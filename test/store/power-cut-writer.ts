// Keeps events on a disk that may lose its power, and says the id of each as soon as it is acknowledged. Its second
// argument, if any, is the file that makes the disk lie; it is written once the store is open.
import { writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { openReader } from '../../src/store/sqlite/connection.ts'
import type { Store } from '../../src/store/store.ts'
import { anArrival, anEndpoint } from '../support/builders.ts'
import { openStoreFile } from '../support/sqlite.ts'

const [, , folder, lie] = process.argv
const file = join(folder!, 'posthorn.db')
const endpoint = anEndpoint()
const say = (line: string) => writeSync(1, `${line}\n`)

async function keep(store: Store): Promise<void> {
  const arrivals = [anArrival(endpoint), anArrival(endpoint, { event: { body: new Uint8Array(3_000).fill(7) } })]
  await store.append(arrivals)
  for (const { event } of arrivals) say(event.id)
}

// Two lives, so that the end of one and the start on what it left are among the places where the power goes.
for (let life = 0; life < 2; life++) {
  const store = await openStoreFile(file)
  if (life === 0) await store.putEntry('endpoint', endpoint, 0)
  say('open')
  if (lie !== undefined) writeFileSync(lie, '')
  for (let i = 0; i < 4; i++) await Promise.all([keep(store), keep(store)])
  const mover = openReader(file)
  mover.exec('PRAGMA wal_checkpoint(PASSIVE)')
  mover.close()
  for (let i = 0; i < 4; i++) await keep(store)
  await store.close()
}
