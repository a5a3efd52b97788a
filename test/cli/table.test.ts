import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { cut, Table, widthOf, wrapWords } from '../../src/cli/table.ts'
import { printable } from '../../src/cli/terminal.ts'

const cells = (...texts: string[]) => texts.map((text) => ({ text }))
const titled = (...titles: string[]) => titles.map((title) => ({ title }))
const wideRows = [cells('evt_1', 'x'.repeat(90)), cells('evt_22', '短い')]

describe('a table', () => {
  test('stands in columns', () => {
    const table = new Table(titled('ID', 'TYPE', 'END'), null)
    const rows = [cells('a', '注文.作成', '1'), cells('bbbb', 'c', '2')]
    table.fit(rows)
    assert.deepEqual(
      [table.header(), ...table.lines(rows)],
      ['ID    TYPE       END', 'a     注文.作成  1', 'bbbb  c          2'],
    )
  })

  test('cuts nothing in a pipe', () => {
    const table = new Table(titled('ID', 'TEXT'), null)
    table.fit(wideRows)
    assert.ok(table.lines(wideRows)[0]?.endsWith('x'.repeat(90)))
  })

  test('fits the terminal, and what was cut ends in …', () => {
    const table = new Table(titled('ID', 'TEXT'), 40)
    table.fit(wideRows)
    const [first = '', second] = table.lines(wideRows)
    assert.equal(widthOf(first), 40)
    assert.ok(first.endsWith('x…'))
    assert.equal(second, 'evt_22  短い')
  })

  const id = 'dlv_0aj5dsxw001wx9x8gmeah8v'
  const endpoint = 'ep_0aj5dsxw001wx9x8gmeah8v'
  const error = 'the connection was refused by 10.1.2.3:8080'

  test('never cuts an id, whatever its column is called', () => {
    const table = new Table(titled('ENDPOINT', 'LAST ERROR'), 40)
    const row = cells(endpoint, error)
    table.fit([row])
    assert.deepEqual(table.lines([row]), [`${endpoint}  the connect…`])
  })

  test('leaves columns out by their importance when texts would be cut to nothing, and tells which', () => {
    const headings = [
      { title: 'ID' },
      { title: 'STATUS' },
      { title: 'N', rank: 9 },
      { title: 'ERROR', rank: 0, min: 20 },
    ]
    const row = cells(id, 'failed', '1', error)
    const at = (columns: number) => {
      const table = new Table(headings, columns)
      table.fit([row])
      return [table.header().split(/\s+/), table.lines([row])[0], table.hidden]
    }
    assert.deepEqual(at(80), [
      ['ID', 'STATUS', 'N', 'ERROR'],
      `${id}  failed  1  the connection was refused by 10.1.2.3:…`,
      [],
    ])
    assert.deepEqual(at(58), [['ID', 'STATUS', 'ERROR'], `${id}  failed  the connection was r…`, ['N']])
    assert.deepEqual(at(50), [['ID', 'ERROR'], `${id}  the connection was r…`, ['STATUS', 'N']])
    assert.deepEqual(at(20), [['ID'], id, ['STATUS', 'N', 'ERROR']])
  })

  test('leaves out what is empty before anything else, without a word', () => {
    const table = new Table([{ title: 'REASON', rank: 0 }, { title: 'TYPE' }, { title: 'COUNT' }], 14)
    const rows = [cells('-', 'order.created', '1')]
    table.fit(rows)
    assert.deepEqual([table.header(), ...table.lines(rows), table.hidden], ['TYPE', 'order.created', ['COUNT']])
  })

  test('counts a column that holds only its usual text as empty', () => {
    const headings = [{ title: 'TENANT', rank: 0, usual: 'default' }, { title: 'TYPE' }]
    const at = (...tenants: string[]) => {
      const table = new Table(headings, 14)
      table.fit(tenants.map((tenant) => cells(tenant, 'order.created')))
      return [table.header(), table.hidden]
    }
    assert.deepEqual(at('default', '-'), ['TYPE', []])
    assert.deepEqual(at('default', 'shop'), ['TENANT', ['TYPE']])
  })

  test('cuts nothing to make room for what is empty', () => {
    const table = new Table([{ title: 'REASON', rank: 0 }, { title: 'TYPE' }], 24)
    const rows = [cells('-', 'invoice.payment.failed')]
    table.fit(rows)
    assert.deepEqual(table.lines(rows), ['invoice.payment.failed'])
  })

  test('shows one column at least, on a terminal that is far too narrow', () => {
    const table = new Table(titled('AAAAAAAAAA', 'BBBBBBBBBB'), 3)
    table.fit([])
    assert.deepEqual([table.header(), table.hidden], ['AAAAAAAAAA', ['BBBBBBBBBB']])
  })

  test('keeps to its columns when a later page is wider', () => {
    const table = new Table(titled('A', 'B'), 20)
    table.fit([cells('x', 'y')])
    const later = [cells('a'.repeat(30), 'b'.repeat(30))]
    table.fit(later)
    assert.deepEqual(table.lines(later), ['aaaaaaaa…  bbbbbbbb…'])
  })

  test('keeps its columns over pages', () => {
    const table = new Table(titled('ID', 'N'), null)
    table.fit([cells('long-id', '1')])
    assert.deepEqual(table.lines([cells('x', '2')]), ['x        2'])
  })

  test('colours do not move columns', () => {
    const table = new Table(titled('A', 'B'), null)
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

  test('is wrapped between words, and a word that is too long for a line is cut', () => {
    assert.deepEqual(wrapWords('dead  2 kept: gone 1, late 1', 14, 6), [
      'dead  2 kept:',
      '      gone 1,',
      '      late 1',
    ])
    assert.deepEqual(wrapWords('dead  2 kept', 12, 6), ['dead  2 kept'])
    assert.deepEqual(wrapWords('dead  permanent_status 1', 12, 6), ['dead  perma…', '      1'])
  })

  test('from outside cannot steer the terminal', () => {
    assert.equal(printable('a\u001b[2Jb\r\n\tc\u009bd\u202e'), 'a\\u001b[2Jb\\u000d\\n\\tc\\u009bd\\u202e')
  })
})
