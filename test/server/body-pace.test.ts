import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { describe, mock, test } from 'node:test'
import { BodyPace } from '../../src/server/body-pace.ts'
import { BodyBudget, BodyReading } from '../../src/server/body-reader.ts'
import { Problem } from '../../src/server/problem.ts'

const windowMs = 1_000

describe('a body that stalls', () => {
  test('has a whole window of its own before it is ended, whenever it began', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const pace = new BodyPace(windowMs)
    const body = (size: () => number) => ({ size, tooSlow: mock.fn() })
    let arrived = 0
    const [early, late, steady] = [body(() => 1), body(() => 1), body(() => arrived)]
    pace.watch(early)
    pace.watch(steady)
    const pass = (ms: number) => {
      arrived += (1_024 * ms) / windowMs
      t.mock.timers.tick(ms)
    }
    pass(windowMs - 1)
    pace.watch(late)
    pass(1)
    assert.deepEqual([early.tooSlow.mock.callCount(), late.tooSlow.mock.callCount()], [0, 0])
    pass(windowMs)
    for (const each of [early, late]) assert.equal(each.tooSlow.mock.callCount(), 1)
    assert.equal(steady.tooSlow.mock.callCount(), 0)
  })

  test('is ended once, and given up: nothing looks at it again', (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] })
    const budget = new BodyBudget(100, new BodyPace(windowMs))
    const request = Object.assign(new EventEmitter(), { headers: {}, httpVersionMinor: 1 })
    const answers: unknown[] = []
    const exchange = { request: request as IncomingMessage, response: new EventEmitter() as ServerResponse }
    new BodyReading(exchange, 100, budget, (body) => answers.push(body instanceof Problem ? body.code : body))
    request.emit('data', Buffer.from('x'))
    assert.equal(budget.used, 1)
    t.mock.timers.tick(5 * windowMs)
    assert.deepEqual([answers, budget.used], [['request_timeout'], 0])
  })
})
