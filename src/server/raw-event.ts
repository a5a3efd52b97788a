import type { Buffer } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { sentTypeProblem } from '../core/routing.ts'
import type { EventInput } from '../intake/intake.ts'
import type { CloudEvent } from './cloudevents.ts'
import { contentHeaders, inputOf, requestFacts } from './event-reader.ts'
import { type FieldError, validationProblem } from './problem.ts'
import { keyProblem } from './schemas.ts'

export type RawEvent = Readonly<{
  headers: IncomingHttpHeaders
  body: Buffer
  /** From the path; null when only the CloudEvent can say. */
  type: string | null
  key: string | null
  tenant: string
  cloudEvent: CloudEvent | null
}>

/** Bytes that are sent on as they came. A CloudEvent's own type wins over the one in the path. */
export function rawInput({ headers, body, type, key, tenant, cloudEvent }: RawEvent): EventInput {
  const event = {
    type: cloudEvent?.type ?? type ?? '',
    tenant,
    key: key ?? cloudEvent?.partitionKey ?? null,
    headers: { ...cloudEvent?.headers, ...contentHeaders(headers) },
    content: { kind: 'raw' as const, bytes: body, type: headers['content-type'] ?? 'application/octet-stream' },
  }
  const errors: FieldError[] = []
  const add = (path: string, message: string | null) => message !== null && errors.push({ path, message })
  add('type', sentTypeProblem(event.type))
  if (event.key !== null) add('key', keyProblem(event.key))
  if (errors.length > 0) throw validationProblem(errors)
  const facts = requestFacts(headers)
  const idempotencyKey = facts.idempotencyKey ?? cloudEvent?.idempotencyKey ?? null
  return inputOf(event, { ...facts, idempotencyKey })
}
