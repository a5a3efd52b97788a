import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { openServed, type Served } from '../server/served.ts'

const page = (name: string) => readFileSync(new URL(`../../docs/operating/${name}`, import.meta.url), 'utf8')

let served: Served
let names: ReadonlySet<string>

before(async () => {
  served = await openServed()
  const { text } = await served.call('GET', '/metrics')
  names = new Set([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) => seriesOf(name, type)))
})
after(() => served.stop())

function seriesOf(name: string, type: string | undefined): readonly string[] {
  return type === 'histogram' ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]
}

/** Every word in the text that could only be a metric. */
function metricsIn(text: string): readonly string[] {
  return [...new Set(text.match(/\b(?:posthorn|nodejs|process)_[a-z0-9_]+/g))]
}

describe('docs/operating', () => {
  for (const file of ['grafana-dashboard.json', 'alert-rules.yml', 'metrics.md']) {
    test(`${file} names only metrics that there are`, () => {
      const named = metricsIn(page(file))
      assert.ok(named.length > 10)
      assert.deepEqual(
        named.filter((name) => !names.has(name) && !/^(?:nodejs|process)_$/.test(name)),
        [],
      )
    })
  }

  test('metrics.md explains every metric of ours', () => {
    const explained = new Set(metricsIn(page('metrics.md')))
    const own = [...names].filter((name) => name.startsWith('posthorn_') && !/_(?:bucket|sum|count)$/.test(name))
    assert.deepEqual(
      own.filter((name) => !explained.has(name)),
      [],
    )
  })

  test('the dashboard is one that Grafana can import', () => {
    const dashboard = JSON.parse(page('grafana-dashboard.json'))
    const [input] = dashboard.__inputs
    assert.deepEqual([input.type, input.pluginId], ['datasource', 'prometheus'])
    const ids = dashboard.panels.map(({ id }: { id: number }) => id)
    assert.equal(new Set(ids).size, ids.length)
    for (const { type, title, targets, gridPos } of dashboard.panels) {
      assert.ok(gridPos.x + gridPos.w <= 24, title)
      if (type === 'row') continue
      assert.ok(targets.length > 0, title)
      for (const { datasource, expr } of targets) {
        assert.equal(datasource.uid, `\${${input.name}}`)
        assert.equal(expr.split('(').length, expr.split(')').length, expr)
      }
    }
  })
})
