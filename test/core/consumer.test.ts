import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { consumerOrderings, laneOfRecord } from '../../src/core/consumer.ts'

const records = [
  { offset: 1, key: 'a' },
  { offset: 2, key: 'b' },
  { offset: 3, key: 'a' },
  { offset: 4, key: null },
  { offset: 5, key: null },
  // A key that looks like the lane of a record without one.
  { offset: 6, key: '4' },
]

describe('the lane of a record', () => {
  const expected = {
    key: [[1, 3], [2], [4], [5], [6]],
    partition: [[1, 2, 3, 4, 5, 6]],
    none: [[1], [2], [3], [4], [5], [6]],
  }
  for (const ordering of consumerOrderings) {
    test(`with ordering ${ordering}`, () => {
      const lanes = Map.groupBy(records, (record) => laneOfRecord(ordering, record))
      assert.deepEqual(
        [...lanes.values()].map((lane) => lane.map(({ offset }) => offset)),
        expected[ordering],
      )
    })
  }
})
