// An import that is killed: after so many pieces, or in the middle of the next.
import { loadConfig } from '../../src/config.ts'
import { runImport } from '../../src/store/import.ts'
import type { ImportTarget } from '../../src/store/import-records.ts'
import { databaseAt } from '../../src/store/open-store.ts'
import { testKey } from '../support/postgres-store.ts'

const [file = '', url = '', writes = '0', inTheMiddle = ''] = process.argv.slice(2)
const { database } = loadConfig({ flags: { database: url }, env: {} })
const source = await databaseAt({ database: { kind: 'sqlite', path: file }, encryptionKey: null }).openExport(null)
const target = await databaseAt({ database, encryptionKey: testKey }).openImport()
const die = () => process.kill(process.pid, 'SIGKILL')
let left = Number(writes)

const dying = new Proxy(target, {
  get(_, name) {
    const own = target[name as keyof ImportTarget]
    if (typeof own !== 'function') return own
    const call = own.bind(target) as (...args: unknown[]) => unknown
    if (name !== 'write') return call
    return (...args: unknown[]) => {
      left -= 1
      if (left >= 0) return call(...args)
      if (inTheMiddle === '') die()
      setTimeout(die, Number(inTheMiddle))
      return call(...args)
    }
  },
})
await runImport(source, dying, { dryRun: false, now: Date.now, onProgress: () => {} })
await target.close()
source.close()
