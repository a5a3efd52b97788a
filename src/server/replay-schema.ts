import { numberBetween, textUpTo } from './schemas.ts'

const noteLengthMax = 1_000

/** What can be said about a replay besides what it brings back. */
export const replayFields = {
  rate: numberBetween(0.01, 100_000)
    .nullable()
    .default(null)
    .meta({ description: 'Deliveries a second; null: only so fast that others do not notice.' }),
  note: textUpTo(noteLengthMax).default(''),
}
