import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { intervalFor, intervalsOf, plotLines, timeText } from '../../src/cli/plot.ts'
import { widthOf } from '../../src/cli/table.ts'
import { hasScript, onTerminal, posthorn } from './command.ts'

const skip = hasScript ? false : 'the command `script` is not installed'
const herd = [
  'simulate',
  '--retry',
  '{"preset":"webhook","maxAttempts":12}',
  '--breaker',
  'off',
  '--concurrency',
  '1000',
]
const minuteMs = 60_000

type Result = Readonly<{
  name: string
  delivered: number
  failed: number
  waiting: number
  peakAfterOutage: number
  lastDeliveredAfterMs: number | null
  load: readonly { second: number; tries: number; failedTries: number }[]
}>

describe('posthorn simulate', () => {
  test('draws the load, marks the outage and tells the results, the same every time', async () => {
    const first = await posthorn(['simulate'])
    assert.equal(first.code, 0, first.stderr)
    assert.match(first.stdout, /^tries per 20s, as given\n/)
    assert.match(first.stdout, /▒ outage ▒/)
    assert.match(first.stdout, /\nas given +1,000 +0 +1,017 +17 /)
    assert.match(first.stdout, /\nwithout breaker +0 +1,000 +5,000 +5,000 /)
    assert.equal((await posthorn(['simulate'])).stdout, first.stdout)
  })

  test('as JSON has the scenario, and every event is accounted for', async () => {
    const { code, stdout } = await posthorn([
      ...herd,
      '--events',
      '300',
      '--rate',
      '600/m',
      '--seed',
      '9',
      '-o',
      'json',
    ])
    assert.equal(code, 0)
    const { scenario, results }: { scenario: Record<string, unknown>; results: Result[] } = JSON.parse(stdout)
    assert.deepEqual(
      [scenario.events, scenario.eventsPerSecond, scenario.outageMs, scenario.breaker, scenario.seed],
      [300, 10, 20 * minuteMs, false, 9],
    )
    assert.deepEqual(
      results.map(({ name }) => name),
      ['as given', 'without jitter'],
    )
    for (const { delivered, failed, waiting } of results) {
      assert.deepEqual([delivered + failed, waiting], [300, 0])
    }
  })

  test('shows the herd that jitter prevents', async () => {
    const { stdout } = await posthorn([...herd, '-o', 'jsonl'])
    const [given, even]: (Result | undefined)[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(even?.peakAfterOutage, 1_000)
    assert.ok((given?.peakAfterOutage ?? Number.NaN) < 50)
  })

  test('a preset is that of the server: RETRY_BASE_DELAY counts', async () => {
    const args = ['simulate', '--retry', 'processing', '--breaker', 'off', '--events', '1', '-o', 'json']
    const { stdout } = await posthorn(args, { env: { RETRY_BASE_DELAY: '1s', MAX_ATTEMPTS: '3' } })
    const { results }: { results: Result[] } = JSON.parse(stdout)
    assert.deepEqual(
      results[0]?.load.map(({ second }) => second),
      [0, 2, 6],
    )
  })

  test('fits the terminal', { skip }, async () => {
    const { code, stdout } = await onTerminal(['simulate', '--outage', '7d', '--retry', 'patient', '--events', '2'])
    assert.equal(code, 0)
    const lines = stripVTControlCharacters(stdout).split('\n')
    assert.deepEqual(
      lines.filter((line) => widthOf(line) > 80),
      [],
    )
    assert.ok(stdout.includes('\u001b[31m'), 'what failed is red')
  })

  for (const [args, says] of [
    [['--retry', 'webhok'], /--retry must be one of/],
    [['--retry', '{"preset":"webhook","maxAttemts":1}'], /--retry\.maxAttemts is not a field.*maxAttempts/],
    [['--breaker', '{"threshold":0}'], /--breaker\.threshold must be a whole number/],
    [['--rate', 'fast'], /A rate reads like 50\/s/],
    [['--capacity', '0/s'], /A rate reads like 50\/s/],
    [['--outage', '90d'], /at most 30d/],
    [['--latency', '0s'], /from 1ms to 5m/],
    [['--events', '0'], /whole number from 1/],
  ] as const) {
    test(`refuses ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await posthorn(['simulate', ...args])
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, says)
    })
  }
})

describe('a plot', () => {
  const load = [
    { second: 0, tries: 64, failedTries: 64 },
    { second: 3, tries: 1, failedTries: 1 },
    { second: 5, tries: 32, failedTries: 0 },
  ]
  const frame = { load, intervalMs: 2_000, intervals: 4, outageMs: 4_000 }

  test('adds up what fell into each interval', () => {
    assert.deepEqual(
      intervalsOf(frame).map(({ tries }) => tries),
      [64, 1, 32, 0],
    )
  })

  test('is as high as the share of the peak, and never leaves a try out', () => {
    const lines = plotLines({ ...frame, peak: 64 }, (_, text) => text)
    assert.deepEqual(lines, [
      '64 │█',
      '   │█',
      '   │█',
      '   │█',
      '   │█ █',
      '   │█ █',
      '   │█ █',
      '   │█▁█',
      ' 0 └────',
      '    ▒▒',
      '    0s',
    ])
  })

  test('has an interval that people think in', () => {
    assert.equal(intervalFor(60 * minuteMs, 60), minuteMs)
    assert.equal(intervalFor(61 * minuteMs, 60), 2 * minuteMs)
    assert.equal(intervalFor(10, 60), 1_000)
    assert.equal(intervalFor(366 * 86_400_000, 3), 122 * 86_400_000)
  })

  test('times are short', () => {
    const texts = [0, 250, 45_000, 750_000, 3 * 3_600_000, 90_061_000].map(timeText)
    assert.deepEqual(texts, ['0s', '250ms', '45s', '12m 30s', '3h', '1d 1h'])
  })
})
