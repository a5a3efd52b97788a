// Another server: owns a database, keeps an event for every line it is told, and says its id.
import { createInterface } from 'node:readline'
import { anEvent } from '../support/builders.ts'
import { openStoreFile } from '../support/sqlite.ts'

const store = await openStoreFile(process.argv[2]!)
console.log('open')
for await (const _ of createInterface({ input: process.stdin })) {
  const event = anEvent()
  await store.append([{ event, idempotency: null, deliveries: [] }])
  console.log(event.id)
}
await store.close()
