import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { askedFor, isUnwanted, reasons } from '../../src/core/outcome.ts'
import { openServed, type Served } from '../server/served.ts'
import { toolOf } from '../support/debian.ts'

const rules = fileURLToPath(new URL('../../docs/operating/alert-rules.yml', import.meta.url))
const dashboard = fileURLToPath(new URL('../../docs/operating/grafana-dashboard.json', import.meta.url))
const alerts = [...readFileSync(rules, 'utf8').matchAll(/^ *- alert: (\w+)$/gm)].map(([, name = '']) => name)
const endpoint = 'ep_1'
const own = `tenant="default",endpoint="${endpoint}"`
/** What Prometheus adds. */
const target = 'job="posthorn",instance="a"'

/** The samples of a page, by their series, as a server shows them right after its start. */
let atStart: ReadonlyMap<string, number>
let served: Served
let folder: string

before(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'posthorn-test-'))
  served = await openServed()
  await served.call('POST', '/v1/endpoints', { kind: 'http', url: 'https://example.com/', types: ['a'] })
  const { text } = await served.call('GET', '/metrics')
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  atStart = new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
  assert.ok(atStart.size > 100)
})
after(async () => {
  await served.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Values minute by minute, in the notation of promtool: `0x9 5x20`. */
type Series = Readonly<Record<string, string>>
type Expectation = Readonly<{ at: string; firing: readonly string[] }>
type Scene = Readonly<{ series: Series; expected: readonly Expectation[] }>

/** The series of a name and labels, with what Prometheus adds. */
function targeted(series: string): string {
  const [name, labels] = series.split(/[{}]/)
  return `${name}{${labels === undefined || labels === '' ? target : `${labels},${target}`}}`
}

/** A start and then nothing new for so many minutes, but for what is given. */
function afterStart(given: Series, minutes = 120): Series {
  const still = [...atStart].map(([series, value]) => [series, `${value}+0x${minutes}`] as const)
  const up = ['up', `1x${minutes}`] as const
  return Object.fromEntries([...still, up, ...Object.entries(given)].map(([key, value]) => [targeted(key), value]))
}

/** What promtool says of the shipped rules; empty: all is as expected. */
function problems(promtool: string, { series, expected }: Scene): string {
  const unknown = expected.flatMap(({ firing }) => firing).filter((name) => !alerts.includes(name))
  assert.deepEqual(unknown, [])
  const file = path.join(folder, 'rules.test.yml')
  const scene = {
    interval: '1m',
    input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
    promql_expr_test: expected.flatMap(({ at, firing }) =>
      alerts.map((alert) => ({
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > bool 0`,
        eval_time: at,
        exp_samples: firing.filter((name) => name === alert).map(() => ({ labels: '{}', value: 1 })),
      })),
    ),
  }
  // JSON is YAML too.
  writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: '1m', tests: [scene] }))
  const { status, stdout, stderr } = spawnSync(promtool, ['test', 'rules', file], { encoding: 'utf8' })
  return status === 0 ? '' : `${stdout}${stderr}`
}

function check(t: TestContext, scene: Scene): void {
  const promtool = toolOf(t, 'promtool', 'prometheus')
  if (promtool !== null) assert.equal(problems(promtool, scene), '')
}

describe('the shipped alert rules', () => {
  test('are what Prometheus can load', (t) => {
    const promtool = toolOf(t, 'promtool', 'prometheus')
    if (promtool === null) return
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', '--lint=all', rules], {
      encoding: 'utf8',
    })
    assert.equal(status, 0, `${stdout}${stderr}`)
    assert.match(stdout, new RegExp(`SUCCESS: ${alerts.length} rules found`))
  })

  test('and the queries of the dashboard are PromQL', (t) => {
    const promtool = toolOf(t, 'promtool', 'prometheus')
    if (promtool === null) return
    const { panels } = JSON.parse(readFileSync(dashboard, 'utf8'))
    const queries: string[] = panels.flatMap(({ targets = [] }) => targets.map(({ expr }: { expr: string }) => expr))
    const recorded = queries.map((expr, at) => ({ record: `q:${at}`, expr: expr.replaceAll('$__rate_interval', '5m') }))
    const file = path.join(folder, 'queries.yml')
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }))
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', file], { encoding: 'utf8' })
    assert.equal(status, 0, `${stdout}${stderr}`)
    assert.ok(queries.length > 40)
  })

  test('are all quiet after a start when nothing happens', (t) => {
    check(t, { series: afterStart({}), expected: ['1m', '30m', '110m'].map((at) => ({ at, firing: [] })) })
  })

  for (const reason of reasons.filter(isUnwanted)) {
    test(`see the first dead letters after a start: ${reason}`, (t) => {
      const key = `posthorn_dead_letters_total{reason="${reason}"}`
      assert.equal(atStart.get(key), 0)
      check(t, {
        series: afterStart({ [key]: '0x9 5x110' }),
        expected: [
          { at: '9m', firing: [] },
          { at: '12m', firing: ['PosthornDeadLetters'] },
          { at: '60m', firing: [] },
        ],
      })
    })
  }

  test('see dead letters that were there before the first scrape', (t) => {
    check(t, {
      series: afterStart({ 'posthorn_dead_letters_total{reason="crashed"}': '3x120' }),
      expected: [
        { at: '1m', firing: ['PosthornDeadLetters'] },
        { at: '60m', firing: [] },
      ],
    })
  })

  test('do not count what a person ended on purpose', (t) => {
    const given = askedFor.map((reason) => [`posthorn_dead_letters_total{reason="${reason}"}`, '0x9 500x110'])
    check(t, { series: afterStart(Object.fromEntries(given)), expected: [{ at: '12m', firing: [] }] })
  })

  for (const { alert, when, given, at, until = '118m', minutes = 120 } of cases()) {
    test(`${alert} fires when ${when}, and ends`, (t) => {
      const expected = [
        { at: '0m', firing: [] },
        { at, firing: [alert] },
        { at: until, firing: [] },
      ]
      check(t, { series: afterStart(given, minutes), expected })
    })
  }

  test('every alert has a case in which it fires', () => {
    const fired = new Set(['PosthornDeadLetters', 'PosthornDown', ...cases().map(({ alert }) => alert)])
    assert.deepEqual(
      alerts.filter((alert) => !fired.has(alert)),
      [],
    )
  })

  test('PosthornDown fires when one of two is gone, and when none is left', (t) => {
    const both = {
      ...afterStart({}),
      'up{job="posthorn",instance="a"}': '1x120',
      'up{job="posthorn",instance="b"}': '1x9 0x20 1x90',
    }
    const expected = (at: string, firing: readonly string[]) => [{ at, firing }]
    check(t, { series: both, expected: [...expected('15m', ['PosthornDown']), ...expected('50m', [])] })
    check(t, { series: {}, expected: expected('5m', ['PosthornDown']) })
  })

  test('PosthornBreakerOpen is quiet when nothing waits behind the breaker', (t) => {
    check(t, {
      series: afterStart({ [`posthorn_breaker_open{${own},state="open"}`]: '1x120' }),
      expected: [{ at: '60m', firing: [] }],
    })
  })

  test('PosthornRelayUnsteady is quiet when the only hub left once', (t) => {
    const given = { posthorn_relays_connected: '1x9 0x110', 'posthorn_relay_links_total{event="lost"}': '0x9 1x110' }
    check(t, { series: afterStart(given), expected: [{ at: '40m', firing: [] }] })
  })

  test('PosthornEndpointFailing is quiet while the breaker of the endpoint tells of it', (t) => {
    const given = {
      [`posthorn_endpoint_attempts_total{${own},outcome="unavailable"}`]: '0+1x120',
      [`posthorn_breaker_open{${own},state="open"}`]: '1x120',
    }
    check(t, { series: afterStart(given), expected: [{ at: '20m', firing: [] }] })
  })
})

type Case = Readonly<{ alert: string; when: string; given: Series; at: string; until?: string; minutes?: number }>

/** Each is wrong for a while and then right again. */
function cases(): readonly Case[] {
  const mostlySlow = Object.fromEntries(
    ['0.0001', '0.1', '0.5', '1', '+Inf'].map((le) => [
      `posthorn_commit_seconds_bucket{le="${le}"}`,
      Number(le) < 0.2 ? '0x120' : '0+100x30 3000x90',
    ]),
  )
  return [
    {
      alert: 'PosthornStoreNotWritable',
      when: 'the store cannot be written',
      given: { posthorn_store_writable: '1x9 0x20 1x90' },
      at: '15m',
    },
    {
      alert: 'PosthornPaused',
      when: 'delivery is paused for an hour',
      given: { posthorn_paused: '0x4 1x70 0x40' },
      at: '70m',
    },
    {
      alert: 'PosthornLaneWithoutHead',
      when: 'a lane has deliveries and none that is due',
      given: { posthorn_lanes_without_head: '0x4 2x30 0x40' },
      at: '15m',
    },
    {
      alert: 'PosthornMembersApart',
      when: 'what processes agree by does not answer',
      given: { posthorn_members_agree: '1x4 0x20 1x40' },
      at: '15m',
    },
    {
      alert: 'PosthornBacklogOld',
      when: 'a delivery has waited for long',
      given: { [`posthorn_backlog_oldest_seconds{${own}}`]: '0x4 30000x40 0x70' },
      at: '30m',
    },
    {
      alert: 'PosthornBacklogLarge',
      when: 'very many wait',
      given: { [`posthorn_backlog_deliveries{${own}}`]: '0x4 200000x40 0x70' },
      at: '30m',
    },
    {
      alert: 'PosthornBreakerOpen',
      when: 'an endpoint is down and deliveries wait',
      given: {
        [`posthorn_breaker_open{${own},state="open"}`]: '_x4 1x60 _x50',
        [`posthorn_backlog_deliveries{${own}}`]: '7x120',
      },
      at: '50m',
    },
    {
      alert: 'PosthornLanesStuck',
      when: 'the first lane after a start is stuck',
      given: { posthorn_lanes_stuck_total: '0x9 1x110' },
      at: '12m',
    },
    { alert: 'PosthornRelayAway', when: 'a hub is away', given: { posthorn_relays_away: '0x9 1x20 0x90' }, at: '15m' },
    {
      alert: 'PosthornRelayUnsteady',
      when: 'a link breaks every minute',
      given: { posthorn_relays_connected: '1x240', 'posthorn_relay_links_total{event="silent"}': '0+1x60 60x180' },
      at: '60m',
      until: '230m',
      minutes: 240,
    },
    {
      alert: 'PosthornFailing',
      when: 'handlers throw',
      given: { 'posthorn_attempts_total{outcome="retryable",kind="handler"}': '0+10x40 400x80' },
      at: '30m',
    },
    {
      alert: 'PosthornEndpointFailing',
      when: 'an endpoint refuses most of what it gets while the others are well',
      given: {
        'posthorn_attempts_total{outcome="delivered",kind="http"}': '0+100x120',
        'posthorn_attempts_total{outcome="permanent",kind="http"}': '0+9x60 540x60',
        [`posthorn_endpoint_attempts_total{${own},outcome="permanent"}`]: '0+9x60 540x60',
        [`posthorn_endpoint_attempts_total{${own},outcome="delivered"}`]: '0+1x60 60x60',
      },
      at: '50m',
    },
    { alert: 'PosthornSlowDisk', when: 'commits are slow', given: mostlySlow, at: '25m' },
    {
      alert: 'PosthornLogLarge',
      when: 'the log grows',
      given: { posthorn_wal_bytes: '0x4 900000000x40 0x70' },
      at: '30m',
    },
    {
      alert: 'PosthornEventLoopBlocked',
      when: 'the event loop is blocked',
      given: { nodejs_eventloop_lag_p99_seconds: '0x4 2x20 0x90' },
      at: '15m',
    },
    {
      alert: 'PosthornUpkeepMissing',
      when: 'upkeep has not run for six hours',
      given: { process_start_time_seconds: '0x600', posthorn_upkeep_last_run_timestamp_seconds: '0x420 25200x180' },
      at: '400m',
      until: '430m',
      minutes: 600,
    },
    {
      alert: 'PosthornUpkeepSkipped',
      when: 'the clock was set',
      given: {
        'posthorn_upkeep_runs_total{result="clocks_apart"}': '0x9 1x591',
        posthorn_upkeep_last_run_timestamp_seconds: '0+60x600',
      },
      at: '30m',
      until: '590m',
      minutes: 600,
    },
  ]
}
