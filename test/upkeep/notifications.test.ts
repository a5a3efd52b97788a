import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import type { Notification } from '../../src/core/notification.ts'
import type { Logger } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import { MemoryState } from '../../src/shared-state/memory-state.ts'
import { Notifications } from '../../src/upkeep/notifications.ts'

type Scene = Readonly<{
  notices: Notices
  notifications: Notifications
  sent: Notification[]
  heard: Notification[]
  logged: { level: 'info' | 'warn' | 'error'; facts: Record<string, unknown>; words: string }[]
  pass: (ms: number) => void
}>

function scene(
  t: TestContext,
  given: {
    typesOf?: (id: string) => readonly string[]
    disabled?: string[]
    leads?: boolean
    mayTell?: (subject: string, forMs: number) => Promise<boolean>
  } = {},
): Scene {
  if (given.mayTell === undefined) t.mock.timers.enable({ apis: ['setTimeout'] })
  const notices = new Notices((error) => assert.fail(String(error)))
  const sent: Notification[] = []
  const heard: Notification[] = []
  const logged: Scene['logged'] = []
  const writer = (level: 'info' | 'warn' | 'error') => (facts: Record<string, unknown>, words: string) =>
    logged.push({ level, facts, words })
  const notifications = new Notifications({
    notices,
    log: { info: writer('info'), warn: writer('warn'), error: writer('error') } as unknown as Logger,
    typesOf: given.typesOf ?? (() => ['order.*']),
    disabled: given.disabled ?? [],
    send: async (notification) => void sent.push(notification),
    mayTell: given.mayTell ?? null,
    dispatcher: { leads: given.leads ?? true },
    tenant: 'default',
  })
  notifications.subscribe((notification) => heard.push(notification))
  return { notices, notifications, sent, heard, logged, pass: (ms) => t.mock.timers.tick(ms) }
}

const dead = (n: number, given: Partial<Extract<Notice, { kind: 'delivery.ended' }>> = {}): Notice => ({
  ...{ kind: 'delivery.ended', tenant: 'default', deliveryId: `dlv_${n}`, eventId: 'evt_1', endpointId: 'ep_1' },
  ...{ type: 'order.created', status: 'dead_letter', reason: 'expired' },
  ...given,
})

test('ten thousand dead letters are two messages: the first at once, all others a minute later', (t) => {
  const { notices, sent, heard, logged, pass } = scene(t)
  notices.publish(dead(0))
  assert.equal(sent.length, 1)
  for (let n = 1; n < 10_000; n += 1) notices.publish(dead(n))
  assert.equal(sent.length, 1)
  pass(60_000)
  assert.equal(sent.length, 2)
  assert.deepEqual(sent[1], {
    type: 'posthorn.dead_letters',
    tenant: 'default',
    endpointId: 'ep_1',
    count: 9_999,
    reasons: { expired: 9_999 },
    sample: 'dlv_9999',
  })
  assert.deepEqual(heard, sent)
  assert.deepEqual(
    logged.map(({ words }) => words),
    ['notification', 'notification'],
  )
  pass(120_000)
  assert.equal(sent.length, 2)
  // After a quiet minute the next one is the first again.
  notices.publish(dead(1))
  assert.equal(sent.length, 3)
})

test('a stream of dead letters makes one message a minute', (t) => {
  const { notices, sent, pass } = scene(t)
  for (let second = 0; second < 600; second += 1) {
    notices.publish(dead(second))
    pass(1_000)
  }
  assert.ok(sent.length <= 11, `${sent.length}`)
  const counted = sent.reduce((sum, each) => sum + ('count' in each ? each.count : 0), 0)
  assert.ok(counted >= 540, `${counted}`)
})

test('dead letters at hundreds of endpoints are told of together, and tenants apart', (t) => {
  const { notices, sent, pass } = scene(t)
  for (let n = 0; n < 500; n += 1) notices.publish(dead(n, { endpointId: `ep_${n}` }))
  notices.publish(dead(1, { tenant: 'acme', endpointId: 'ep_acme' }))
  assert.equal(sent.at(-1)?.tenant, 'acme')
  pass(60_000)
  const ours = sent.filter(({ tenant }) => tenant === 'default')
  assert.ok(ours.length <= 15, `${ours.length} messages`)
  const counted = ours.reduce((sum, each) => sum + ('count' in each ? each.count : 0), 0)
  assert.equal(counted, 500)
  assert.equal(ours.filter((each) => 'endpointId' in each && each.endpointId === null).length > 0, true)
})

test('a breaker that flaps within a minute is told once, unless it ends up otherwise', (t) => {
  const { notices, sent, pass } = scene(t)
  const turn = (from: 'closed' | 'open', to: 'closed' | 'open') =>
    notices.publish({ kind: 'breaker.changed', tenant: 'default', endpointId: 'ep_1', from, to })
  turn('closed', 'open')
  for (let n = 0; n < 10; n += 1) {
    turn('open', 'closed')
    turn('closed', 'open')
  }
  pass(60_000)
  assert.deepEqual(
    sent.map(({ type }) => type),
    ['posthorn.breaker.opened'],
  )
  turn('open', 'closed')
  pass(60_000)
  assert.deepEqual(
    sent.map(({ type }) => type),
    ['posthorn.breaker.opened', 'posthorn.breaker.closed'],
  )
})

test('an endpoint is told of when it becomes disabled, not when one that is disabled changes', (t) => {
  const { notices, sent, pass } = scene(t, { disabled: ['ep_old'] })
  const change = (endpointId: string, status: 'active' | 'disabled') =>
    notices.publish({ kind: 'endpoint.changed', tenant: 'default', endpointId, status, statusReason: 'gone' })
  change('ep_old', 'disabled')
  change('ep_1', 'active')
  assert.deepEqual(sent, [])
  change('ep_1', 'disabled')
  change('ep_1', 'disabled')
  assert.equal(sent.length, 1)
  pass(60_000)
  change('ep_1', 'active')
  change('ep_1', 'disabled')
  assert.equal(sent.length, 2)
})

test('what concerns an endpoint that takes notifications is logged and told to callbacks, and sent to no endpoint', (t) => {
  const { notices, sent, heard } = scene(t, { typesOf: () => ['order.*', 'posthorn.*'] })
  notices.publish(dead(1))
  notices.publish({ kind: 'breaker.changed', tenant: 'default', endpointId: 'ep_1', from: 'closed', to: 'open' })
  assert.deepEqual([sent.length, heard.length], [0, 2])
})

test('dead letters at three processes are one message a minute, and none of them is left out', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let nowMs = 0
  const state = new MemoryState(() => nowMs)
  const mayTell = async (key: string, ttlMs: number): Promise<boolean> => {
    const [answer] = await state.swap([{ key, from: null, to: 'told', ttlMs }])
    return answer!.swapped
  }
  const processes = [0, 1, 2].map(() => scene(t, { mayTell }))
  const messages = () => processes.flatMap(({ sent }) => sent) as { count: number }[]
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  for (let n = 0; n < 30; n++) processes[n % 3]!.notices.publish(dead(n))
  await settle()
  const counts: number[] = [messages().length]
  for (let minute = 1; minute <= 4; minute++) {
    nowMs += 60_000
    t.mock.timers.tick(60_000)
    await settle()
    counts.push(messages().length)
  }
  assert.deepEqual(counts, [1, 2, 3, 3, 3])
  assert.equal(
    messages().reduce((sum, { count }) => sum + count, 0),
    30,
  )
})

test('what cannot be asked for is told', async (t) => {
  const { notices, sent } = scene(t, { mayTell: () => Promise.reject(new Error('away')) })
  notices.publish(dead(1))
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(sent.length, 1)
})

test('one that cannot be sent and a callback that throws are logged, and stop nothing', async (t) => {
  const { notifications, notices, logged } = scene(t)
  const failing = new Notifications({
    notices,
    log: {
      warn: (_: object, words: string) => logged.push({ level: 'warn', facts: {}, words }),
      error: () => {},
    } as unknown as Logger,
    typesOf: () => null,
    disabled: [],
    send: () => Promise.reject(new Error('full')),
    mayTell: null,
    dispatcher: { leads: true },
    tenant: 'default',
  })
  notifications.subscribe(() => {
    throw new Error('a defect of the listener')
  })
  notices.publish(dead(1))
  await failing.stop()
  const words = logged.map((line) => line.words)
  assert.ok(words.includes('notification.not_sent'))
  assert.ok(words.includes('notification.listener_failed'))
})

test('a replay that has finished is logged for information, what needs somebody as a warning', (t) => {
  const { notices, logged } = scene(t)
  const counts = { matched: 3, requeued: 3, delivered: 0, failedAgain: 0, waiting: 3, skipped: 0 }
  notices.publish({ kind: 'replay.changed', tenant: null, replayId: 'rpl_1', status: 'finished', ...counts })
  notices.publish(dead(1))
  assert.deepEqual(
    logged.map(({ level, facts }) => [level, facts.type]),
    [
      ['info', 'posthorn.replay.finished'],
      ['warn', 'posthorn.dead_letters'],
    ],
  )
})

test('what is gathered is said before the end', async (t) => {
  const { notices, notifications, sent } = scene(t)
  notices.publish(dead(1))
  notices.publish(dead(2))
  await notifications.stop()
  await notifications.stop()
  assert.equal(sent.length, 2)
  notices.publish(dead(3))
  assert.equal(sent.length, 2)
})
