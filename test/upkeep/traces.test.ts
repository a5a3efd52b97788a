import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import type { AttemptSettled } from '../../src/core/notice.ts'
import { Notices } from '../../src/notices.ts'
import { openTraces } from '../../src/upkeep/traces.ts'

const attempt: AttemptSettled = {
  ...{ kind: 'attempt.settled', tenant: 'acme', deliveryId: 'dlv_1', eventId: 'evt_1', endpointId: 'ep_1' },
  ...{ endpointKind: 'http', type: 'order.created', number: 2, outcome: 'delivered', statusCode: 204, error: null },
  ...{ startedAt: 1_767_225_600_000, tookMs: 250, status: 'delivered', reason: null, queuedMs: null, endToEndMs: 300 },
  traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
}

test('every try is a span below the one that the sender named', async (t) => {
  const exporter = new InMemorySpanExporter()
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  t.after(() => trace.disable())
  const notices = new Notices((error) => assert.fail(String(error)))
  const end = await openTraces(notices, '1.2.3')
  notices.publish(attempt)
  const failure = { outcome: 'unavailable', statusCode: 503, error: 'answered 503', status: 'pending' } as const
  notices.publish({ ...attempt, ...failure, endToEndMs: null, endpointKind: 'handler', traceparent: null })
  notices.publish({ kind: 'event.accepted', tenant: 'acme', eventId: 'evt_1', type: 'a', deliveries: 1 })
  end?.()
  notices.publish(attempt)
  const [good, bad, ...others] = exporter.getFinishedSpans()
  assert.deepEqual(others, [])
  assert.equal(good?.name, 'deliver order.created')
  assert.equal(good.spanContext().traceId, '0af7651916cd43dd8448eb211c80319c')
  assert.equal(good.parentSpanContext?.spanId, 'b7ad6b7169203331')
  assert.equal(good.kind, SpanKind.CLIENT)
  assert.deepEqual(
    [good.startTime, good.duration],
    [
      [1_767_225_600, 0],
      [0, 250_000_000],
    ],
  )
  assert.equal(good.attributes['posthorn.delivery'], 'dlv_1')
  assert.equal(good.attributes['http.response.status_code'], 204)
  assert.equal(good.status.code, SpanStatusCode.UNSET)
  assert.deepEqual(bad?.status, { code: SpanStatusCode.ERROR, message: 'answered 503' })
  assert.equal(bad?.kind, SpanKind.CONSUMER)
  assert.equal(bad?.parentSpanContext, undefined)
})
