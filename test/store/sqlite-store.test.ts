import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Store } from '../../src/store/store.ts'
import { storeContract } from '../contracts/store.ts'
import { copyOfFiles, openStoreFile, tempFolder } from '../support/sqlite.ts'

storeContract('sqlite', async () => {
  const first = await tempFolder()
  const folders = [first.path]
  const stores: Store[] = [await openStoreFile(join(first.path, 'posthorn.db'))]
  return {
    store: stores[0]!,
    // A new owner opens what a crash would have left: the first store is not closed, its files are copied as they are.
    reopen: async () => {
      const copy = await copyOfFiles(folders.at(-1)!)
      folders.push(copy)
      const store = await openStoreFile(join(copy, 'posthorn.db'))
      stores.push(store)
      return store
    },
    destroy: async () => {
      for (const store of stores) await store.close()
      for (const folder of folders) await rm(folder, { recursive: true, force: true })
    },
  }
})
