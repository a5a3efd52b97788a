import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const bootstrap = fileURLToPath(new URL('../../scripts/bootstrap.mjs', import.meta.url))
const examples = readdirSync(new URL('../../examples/', import.meta.url)).filter((name) => !name.includes('.'))

describe('npm run example', () => {
  const wrong: readonly (readonly [names: readonly string[], words: string])[] = [
    [[], 'which example?'],
    [['outbound-ap'], 'there is no example outbound-ap'],
    [['outbound-app/nothing.ts'], 'there is no example outbound-app/nothing.ts'],
  ]
  for (const [names, words] of wrong) {
    test(`lists the examples when it is asked for ${names[0] ?? 'none'}, and ends with 2`, () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [bootstrap, 'example', ...names], {
        encoding: 'utf8',
      })
      assert.deepEqual([status, stdout], [2, ''])
      const [first, ...rest] = stderr.trimEnd().split('\n')
      assert.equal(first, `posthorn: ${words}`)
      assert.deepEqual(
        rest,
        examples.map((name) => `  npm run example ${name}`),
      )
    })
  }
})
