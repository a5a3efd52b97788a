import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'

export async function tempFolder(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
  return { path, remove: () => rm(path, { recursive: true, force: true, maxRetries: 3 }) }
}

export async function openStoreFile(file: string): Promise<Store> {
  const { store } = await openSqliteStore({
    file,
    key: null,
    onFatal: (error) => {
      throw error
    },
  })
  return store
}

/** What a crash would leave: the files as they are on disk right now, copied while the store is still open. */
export async function copyOfFiles(folder: string): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
  await cp(folder, copy, { recursive: true })
  return copy
}

/** An empty store that is closed and removed when the test ends. */
export async function storeFor(t: TestContext): Promise<Store> {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  t.after(async () => {
    await store.close()
    await folder.remove()
  })
  return store
}
