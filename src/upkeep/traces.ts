import type { Attributes, Context, Span, TraceAPI } from '@opentelemetry/api'
import { kindFacts } from '../core/endpoint-kinds.ts'
import type { AttemptSettled } from '../core/notice.ts'
import type { Notices } from '../notices.ts'

type Api = typeof import('@opentelemetry/api')

/**
 * A span for every try, below the span that the sender named in `traceparent`. Only when the application has brought
 * `@opentelemetry/api`: without it there is nobody to send spans to. Returns what ends it, or null.
 */
export async function openTraces(notices: Notices, version: string): Promise<(() => void) | null> {
  const api = await otelApi()
  if (api === null) return null
  return notices.subscribe((notice) => {
    if (notice.kind === 'attempt.settled') record(api, version, notice)
  })
}

async function otelApi(): Promise<Api | null> {
  try {
    return await import('@opentelemetry/api')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') return null
    throw error
  }
}

function record(api: Api, version: string, attempt: AttemptSettled): void {
  const { startedAt, tookMs, outcome, error, endpointKind } = attempt
  const tracer = api.trace.getTracer('posthorn', version)
  const kind = kindFacts[endpointKind].runsHere ? api.SpanKind.CONSUMER : api.SpanKind.CLIENT
  const options = { kind, startTime: startedAt, attributes: attributesOf(attempt) }
  const span: Span = tracer.startSpan(`deliver ${attempt.type}`, options, parentOf(api, attempt.traceparent))
  if (outcome !== 'delivered') {
    span.setStatus({ code: api.SpanStatusCode.ERROR, ...(error === null ? {} : { message: error }) })
  }
  span.end(startedAt + tookMs)
}

function attributesOf(attempt: AttemptSettled): Attributes {
  const { statusCode, reason } = attempt
  return {
    'messaging.system': 'posthorn',
    'messaging.operation.type': 'send',
    'messaging.message.id': attempt.eventId,
    'posthorn.event.type': attempt.type,
    'posthorn.tenant': attempt.tenant,
    'posthorn.delivery': attempt.deliveryId,
    'posthorn.endpoint': attempt.endpointId,
    'posthorn.endpoint.kind': attempt.endpointKind,
    'posthorn.attempt': attempt.number,
    'posthorn.outcome': attempt.outcome,
    'posthorn.status': attempt.status,
    ...(reason === null ? {} : { 'posthorn.reason': reason }),
    ...(statusCode === null ? {} : { 'http.response.status_code': statusCode }),
  }
}

const traceparentPattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** An event without a trace begins one of its own. */
function parentOf({ trace, ROOT_CONTEXT }: { trace: TraceAPI; ROOT_CONTEXT: Context }, traceparent: string | null) {
  const [, traceId = '', spanId = '', flags = '00'] = traceparentPattern.exec(traceparent ?? '') ?? []
  if (traceId === '') return ROOT_CONTEXT
  const traceFlags = Number.parseInt(flags, 16)
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}
