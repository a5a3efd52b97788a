import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { cut, Table, widthOf } from '../../src/cli/table.ts'
import { printable } from '../../src/cli/terminal.ts'

const cells = (...texts: string[]) => texts.map((text) => ({ text }))
const wideRows = [cells('evt_1', 'x'.repeat(90)), cells('evt_22', '短い')]

describe('a table', () => {
  test('stands in columns', () => {
    const table = new Table(['ID', 'TYPE', 'END'], null)
    const rows = [cells('a', '注文.作成', '1'), cells('bbbb', 'c', '2')]
    table.fit(rows)
    assert.deepEqual(
      [table.header(), ...table.lines(rows)],
      ['ID    TYPE       END', 'a     注文.作成  1', 'bbbb  c          2'],
    )
  })

  test('cuts nothing in a pipe', () => {
    const table = new Table(['ID', 'TEXT'], null)
    table.fit(wideRows)
    assert.ok(table.lines(wideRows)[0]?.endsWith('x'.repeat(90)))
  })

  test('fits the terminal, and what was cut ends in …', () => {
    const table = new Table(['ID', 'TEXT'], 40)
    table.fit(wideRows)
    const [first = '', second] = table.lines(wideRows)
    assert.equal(widthOf(first), 40)
    assert.ok(first.endsWith('x…'))
    assert.equal(second, 'evt_22  短い')
  })

  test('stays readable on a terminal that is far too narrow', () => {
    const table = new Table(['AAAAAAAAAA', 'BBBBBBBBBB'], 3)
    table.fit([])
    assert.equal(table.header(), 'AAA…  BBB…')
  })

  test('never cuts an id, which is there to be copied', () => {
    const table = new Table(['ID', 'LAST ERROR'], 40)
    const row = cells('dlv_0aj5dsxw001wx9x8gmeah8v', 'the connection was refused')
    table.fit([row])
    assert.deepEqual(table.lines([row]), ['dlv_0aj5dsxw001wx9x8gmeah8v  the connec…'])
  })

  test('keeps its columns over pages', () => {
    const table = new Table(['ID', 'N'], null)
    table.fit([cells('long-id', '1')])
    assert.deepEqual(table.lines([cells('x', '2')]), ['x        2'])
  })

  test('colours do not move columns', () => {
    const table = new Table(['A', 'B'], null)
    const rows = [[{ text: 'ok', paint: (text: string) => `\u001b[32m${text}\u001b[39m` }, { text: '1' }]]
    table.fit(rows)
    assert.deepEqual(table.lines(rows), ['\u001b[32mok\u001b[39m  1'])
  })
})

describe('text', () => {
  test('is as wide as it looks', () => {
    assert.deepEqual(['abc', '短い', '👩‍👩‍👧', 'é', 'e\u0301'].map(widthOf), [3, 4, 2, 1, 1])
  })

  test('is cut between whole characters', () => {
    assert.deepEqual([cut('短い文', 4), cut('abcdef', 4), cut('abcd', 4)], ['短…', 'abc…', 'abcd'])
  })

  test('from outside cannot steer the terminal', () => {
    assert.equal(printable('a\u001b[2Jb\r\n\tc\u009bd\u202e'), 'a\\u001b[2Jb\\u000d\\n\\tc\\u009bd\\u202e')
  })
})
