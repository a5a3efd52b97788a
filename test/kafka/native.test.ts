import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { loadNative } from '../../src/kafka/confluent/native.ts'

const packageName = '@confluentinc/kafka-javascript'

function aFolder(): Disposable & { at: string } {
  const at = mkdtempSync(path.join(tmpdir(), 'posthorn-client-'))
  return { at, [Symbol.dispose]: () => rmSync(at, { recursive: true, force: true }) }
}

test('a client that is not installed is an error with the command that installs it', () => {
  using folder = aFolder()
  for (const place of [null, folder.at]) {
    assert.throws(() => loadNative(place), {
      code: 'config_invalid',
      message: `Kafka needs the package ${packageName}. Install it with \`npm install ${packageName}@^1.10.1\`.`,
    })
  }
})

test('a client that was compiled for another Node is an error with the command that compiles it', () => {
  using folder = aFolder()
  const home = path.join(folder.at, 'node_modules', packageName)
  mkdirSync(home, { recursive: true })
  writeFileSync(path.join(home, 'index.js'), `throw new Error('Could not locate the bindings file')`)
  assert.throws(() => loadNative(folder.at), {
    code: 'config_invalid',
    message: /npm_config_build_from_source=true npm rebuild @confluentinc\/kafka-javascript/,
  })
})
