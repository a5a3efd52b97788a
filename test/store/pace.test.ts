import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Pace } from '../../src/store/pace.ts'

/** Work whose pieces take a millisecond for every `perMs` rows, and the sync of the disk. */
async function run(rows: number, perMs: number, { syncMs = 0, hurriesAt = Number.POSITIVE_INFINITY } = {}) {
  let now = 0
  const pieces: number[] = []
  const rests: number[] = []
  const stopping = new AbortController()
  const pace = new Pace({
    limitMin: 32,
    limitMax: 500,
    hurriesAt,
    stopping: stopping.signal,
    now: () => now,
    rest: async (ms) => void rests.push(ms),
  })
  let left = rows
  await pace.work(async (limit) => {
    pieces.push(limit)
    left -= limit
    now += syncMs + limit / perMs
    return left > 0 ? 'wrote' : 'done'
  })
  return { pieces, rests, workedMs: now }
}

test('pieces grow while they are quick, and never beyond the limit', async () => {
  const { pieces } = await run(20_000, 10_000)
  assert.deepEqual(pieces.slice(0, 5), [32, 64, 128, 256, 500])
  assert.equal(Math.max(...pieces), 500)
})

test('pieces shrink when they are slow, and never below the limit', async () => {
  const { pieces } = await run(5_000, 5)
  assert.ok(pieces.every((piece) => piece >= 32 && piece <= 64))
  const middle = await run(20_000, 200)
  // 0.4 ms more than the quickest are wanted: about 110 rows.
  assert.ok(middle.pieces.slice(5).every((piece) => piece >= 64 && piece <= 128))
})

test('a slow sync of the disk, which every write has to wait for, makes the pieces no smaller', async () => {
  const { pieces } = await run(20_000, 10_000, { syncMs: 25 })
  assert.equal(Math.max(...pieces), 500)
})

test('where the disk is slow, a piece may take a quarter of what its sync takes', async () => {
  const { pieces } = await run(20_000, 100, { syncMs: 20 })
  assert.equal(Math.max(...pieces), 500)
})

test('pieces that only look say nothing of how long writing takes', async () => {
  let now = 0
  const pace = new Pace({
    ...{ limitMin: 32, limitMax: 500, hurriesAt: Number.POSITIVE_INFINITY },
    stopping: new AbortController().signal,
    now: () => now,
    rest: async () => {},
  })
  const limits: number[] = []
  await pace.work(async (limit) => {
    limits.push(limit)
    const wrote = limits.length > 5
    now += wrote ? 20 : 0.1
    return limits.length === 12 ? 'done' : wrote ? 'wrote' : 'looked'
  })
  assert.deepEqual(limits, [32, 32, 32, 32, 32, 32, 64, 128, 256, 500, 500, 500])
})

test('every piece but the last is followed by a rest twelve times as long, at most two seconds', async () => {
  const { pieces, rests } = await run(3_000, 20)
  assert.equal(rests.length, pieces.length - 1)
  const expected = pieces.slice(0, -1).map((piece) => (piece / 20) * 12)
  assert.deepEqual(rests.map(Math.round), expected.map(Math.round))
  assert.ok((await run(300, 0.01)).rests.every((rest) => rest === 2_000))
})

test('what has taken too long already hurries: larger pieces, and rests no longer than they', async () => {
  const { pieces, rests, workedMs } = await run(20_000, 30, { hurriesAt: 200 })
  assert.ok(workedMs > 200)
  assert.equal(Math.max(...pieces.slice(0, 100)), 64)
  assert.ok(pieces.slice(-5).every((piece) => piece >= 128))
  assert.ok(Math.abs((rests.at(-1) ?? 0) - (pieces.at(-2) ?? 0) / 30) < 0.001)
})

test('it ends between two pieces when it is stopped', async () => {
  const stopping = new AbortController()
  const pace = new Pace({ limitMin: 1, limitMax: 1, hurriesAt: Number.POSITIVE_INFINITY, stopping: stopping.signal })
  let pieces = 0
  await pace.work(async () => {
    pieces += 1
    if (pieces === 3) stopping.abort()
    return 'wrote'
  })
  assert.equal(pieces, 3)
})
