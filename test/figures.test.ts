import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

const text = (file: string) => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8')

/** The first bold number of a row of the table in docs/performance.md. */
function figure(row: number): string {
  const line = text('docs/performance.md')
    .split('\n')
    .find((each) => each.startsWith(`| ${row} |`))
  return /\*\*([\d.]+)/.exec(line ?? '')?.[1] ?? `no figure ${row}`
}

test('every number in "How fast" of the README is that of docs/performance.md', () => {
  const [section = ''] = /^\*\*How fast\*\*.*?\n\n/ms.exec(text('README.md')) ?? []
  const [peers = ''] = /^\*\*Peers\*\*.*?\n\n/ms.exec(text('docs/performance.md')) ?? []
  const peer = (name: string) => new RegExp(`${name} ([\\d.]*\\d)`).exec(peers)?.[1]
  const numbers = section.match(/\d[\d.,]*\d|\d/g)
  assert.deepEqual(numbers, [figure(1), peer('Outpost'), peer('Svix'), figure(8)])
})
