import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { everyNotice } from '../../src/core/notice-filter.ts'
import { Audience } from '../../src/shared-state/audience.ts'
import { WaitingNotices } from '../../src/shared-state/waiting-notices.ts'
import { t0 } from '../support/builders.ts'

const notice = (tenant: string): Notice => ({ kind: 'event.accepted', tenant, eventId: 'e', type: 'a', deliveries: 0 })

test('drops of more tenants than can be counted apart are counted together, for those who see all', () => {
  const waiting = new WaitingNotices({ bytesMax: 0, itemBytesMax: 1_000 })
  for (let n = 0; n < 1_500; n++) assert.equal(waiting.add(notice(`tenant ${n}`), t0), false)
  assert.equal(waiting.add(notice('tenant 3'), t0), false)
  const { items, dropped } = waiting.take()
  const counts = new Map(dropped)
  assert.equal(items.length, 1_001)
  assert.deepEqual([counts.get('tenant 3'), counts.get('tenant 1200'), counts.get(null)], [2, undefined, 500])
  assert.ok(waiting.isEmpty)
})

test('the members that are known to listen are bounded', () => {
  const audience = new Audience()
  for (let n = 0; n < 1_500; n++) audience.note(`member ${n}`, [everyNotice], t0)
  assert.equal(audience.size, 1_000)
  audience.note('member 3', [{ ...everyNotice, tenant: 'acme' }], t0 + 1)
  audience.lapse(t0)
  assert.equal(audience.size, 1)
  assert.deepEqual(
    [notice('acme'), notice('globex')].map((each) => audience.wants(each)),
    [true, false],
  )
})
