import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { describe, test } from 'node:test'
import { tempFolder } from '../support/sqlite.ts'

const program = path.join(import.meta.dirname, 'poisoned-program.ts')
const poison = 13

type Told = Readonly<{ status: string; reason: string | null; attempts: number; n: number }>

/** Runs the program on the file until it ends by itself; answers how often it was killed and what became of all. */
async function runUntilDone(file: string, events: number): Promise<{ crashes: number; told: readonly Told[] }> {
  for (let crashes = 0; crashes <= 10; crashes += 1) {
    const args = [program, file, String(crashes === 0 ? events : 0), String(poison)]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    const [code, signal] = await once(child, 'close')
    if (signal === 'SIGKILL') continue
    assert.equal(code, 0, said)
    return { crashes, told: JSON.parse(said) }
  }
  assert.fail('it is killed again and again')
}

describe('an event whose handler kills the process', () => {
  test('ends as crashed after three crashes, and every other one is processed', async (t) => {
    const folder = await tempFolder()
    t.after(() => folder.remove())
    const { crashes, told } = await runUntilDone(path.join(folder.path, 'posthorn.db'), 40)
    assert.equal(crashes, 3)
    assert.equal(told.length, 40)
    const others = told.filter(({ n }) => n !== poison)
    assert.deepEqual([...new Set(others.map(({ status }) => status))], ['delivered'])
    const [killer] = told.filter(({ n }) => n === poison)
    assert.deepEqual([killer?.status, killer?.reason], ['failed', 'crashed'])
  })
})
