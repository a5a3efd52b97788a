import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { openPosthorn, type Posthorn, type PosthornOptions } from '../../src/index.ts'
import { tempFolder } from '../support/sqlite.ts'

/** A folder with a database that can be opened again and again. */
export async function folderFor(t: TestContext): Promise<{
  path: string
  open(options?: PosthornOptions): Promise<Posthorn>
}> {
  const folder = await tempFolder()
  const opened: Posthorn[] = []
  t.after(async () => {
    for (const posthorn of opened) await posthorn.close()
    await folder.remove()
  })
  return {
    path: folder.path,
    async open(options = {}) {
      const database = `sqlite:${join(folder.path, 'posthorn.db')}`
      const posthorn = await openPosthorn({ database, logLevel: 'silent', grace: '0s', ...options })
      opened.push(posthorn)
      return posthorn
    },
  }
}

export async function posthornFor(t: TestContext, options: PosthornOptions = {}): Promise<Posthorn> {
  return (await folderFor(t)).open(options)
}

/** Resolves when as many attempts as asked for are on disk, however they went. */
export function attempts(posthorn: Posthorn, count: number): Promise<void> {
  return new Promise((resolve) => {
    let seen = 0
    const end = posthorn.on('attempt.settled', () => {
      seen += 1
      if (seen < count) return
      end()
      resolve()
    })
  })
}
