import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import pg from 'pg'
import { formatId, numberAfter, numbersBeginning } from '../../src/core/id.ts'
import { byteas, int4s, int8s, keys, texts } from '../../src/store/postgres/arrays.ts'
import { slotOf } from '../../src/store/postgres/lane-slots.ts'
import { idOf, keysWithin, rowKeyOf } from '../../src/store/postgres/row-keys.ts'
import { noPostgres, postgresUrl } from '../support/postgres.ts'

const anyId = fc
  .record({ number: fc.maxSafeNat(), random: fc.uint8Array({ minLength: 12, maxLength: 12 }) })
  .map(({ number, random }) => formatId('dlv', number, random))

describe('row keys of Postgres', () => {
  it('are the id and nothing else', () => {
    fc.assert(fc.property(anyId, (id) => assert.equal(idOf('dlv', rowKeyOf('dlv', id) ?? ''), id)))
  })

  it('are read as Postgres writes them', () => {
    const id = formatId('evt', numberAfter(0, Date.UTC(2026, 0, 1)), new Uint8Array(12).fill(9))
    const hex = rowKeyOf('evt', id) ?? ''
    const written = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
    assert.equal(idOf('evt', written), id)
  })

  it('sort as ids do', () => {
    fc.assert(
      fc.property(anyId, anyId, (a, b) => {
        const [keyA, keyB] = [rowKeyOf('dlv', a) ?? '', rowKeyOf('dlv', b) ?? '']
        assert.equal(keyA < keyB, a < b)
      }),
    )
  })

  it('say when a text is no id with that prefix', () => {
    const id = formatId('dlv', 7, new Uint8Array(12))
    for (const text of [
      '',
      'dlv_nonsense',
      id.replace('dlv', 'evt'),
      `${id}0`,
      id.slice(0, -1),
      `${id.slice(0, -1)}u`,
    ]) {
      assert.equal(rowKeyOf('dlv', text), null, text)
    }
  })

  it('lie within those of the beginning of their id', () => {
    fc.assert(
      fc.property(anyId, fc.integer({ min: 8, max: 11 }), (id, digits) => {
        const [first, last] = keysWithin(...numbersBeginning(id.slice(0, 4 + digits)))
        const key = rowKeyOf('dlv', id) ?? ''
        assert.ok(first <= key && key <= last)
      }),
    )
  })
})

describe('slots of lanes', () => {
  it('are numbers of rows that there are', () => {
    fc.assert(fc.property(fc.nat(), fc.string(), (no, lane) => slotOf(no, lane) >= 0 && slotOf(no, lane) < 65_536))
  })

  it('differ for most lanes', () => {
    const slots = new Set(Array.from({ length: 10_000 }, (_, at) => slotOf(1, `key:order-${at}`)))
    assert.ok(slots.size > 9_000, `${slots.size} of 10,000`)
  })
})

describe('arrays in binary', { skip: noPostgres() ?? false }, () => {
  it('are read by the server as they were meant', async () => {
    const client = new pg.Client({ connectionString: postgresUrl() })
    await client.connect()
    try {
      const maybe = <T>(values: fc.Arbitrary<T>) => fc.array(fc.option(values), { maxLength: 5 })
      const given = fc.record({
        ints: maybe(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
        bigs: maybe(fc.maxSafeInteger()),
        words: maybe(fc.string({ unit: 'binary' })),
        bytes: fc.array(fc.uint8Array(), { maxLength: 5 }),
        ids: fc.array(anyId, { maxLength: 5 }),
      })
      await fc.assert(
        fc.asyncProperty(given, async ({ ints, bigs, words, bytes, ids }) => {
          const values = [int4s(ints), int8s(bigs), texts(words), byteas(bytes), keys('dlv', ids)]
          const sql = 'SELECT $1::int[] a, $2::bigint[]::text[] b, $3::text[] c, $4::bytea[] d, $5::uuid[]::text[] e'
          const [row] = (await client.query(sql, values)).rows
          const shown = words.map((word) => word?.replaceAll('\u0000', '\ufffd').toWellFormed() ?? null)
          assert.deepEqual(row.a, ints)
          assert.deepEqual(
            row.b,
            bigs.map((big) => (big === null ? null : String(big))),
          )
          assert.deepEqual(row.c, shown)
          assert.deepEqual(
            row.d,
            bytes.map((one) => Buffer.from(one)),
          )
          assert.deepEqual(
            row.e.map((key: string) => idOf('dlv', key)),
            ids,
          )
        }),
        { numRuns: 200 },
      )
    } finally {
      await client.end()
    }
  })
})
