import { Buffer } from 'node:buffer'
import { z } from 'zod'
import type { Report } from '../../core/outcome.ts'
import { relayNameLengthMax } from '../../core/relay.ts'

/**
 * What hub and edge say to each other, over a WebSocket: see docs/relay-protocol.md. All messages are JSON texts but
 * `deliver`, which is binary: four bytes with the length of its head (big-endian), the head as JSON, the body as it is.
 * Fields and kinds that are not known are passed over: they are those of a newer version.
 */
export const protocolVersion = 1

/** How much the hub takes before it has answered. */
export type Credit = Readonly<{ frames: number; bytes: number }>

/** What a hub sends at once: answers are small. */
export const hubMessageBytesMax = 256 * 1024
/** What may be in a report. */
export const reportLimits = {
  headerNameLengthMax: 256,
  headerLengthMax: 16_384,
  bodyLengthMax: 65_536,
  codeLengthMax: 64,
  messageLengthMax: 1_024,
} as const
export const secretsMax = 16
const idLengthMax = 64
const typeLengthMax = 256
const tenantLengthMax = 256
const softwareLengthMax = 100
const routesMax = 1_000
const returnedMax = 10_000

const count = z.number().int().min(0)
const text = (max: number) => z.string().max(max)
const id = text(idLengthMax)
const name = text(relayNameLengthMax)
const software = text(softwareLengthMax)
const headers = z.record(text(reportLimits.headerNameLengthMax), text(reportLimits.headerLengthMax))
const problem = { code: text(reportLimits.codeLengthMax), message: text(reportLimits.messageLengthMax) }

const report = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('answered'),
    statusCode: z.number().int().min(100).max(999),
    headers,
    body: text(reportLimits.bodyLengthMax),
  }),
  z.object({ kind: z.literal('unreachable'), ...problem }),
  z.object({ kind: z.literal('blocked'), message: problem.message }),
])
/** What a hub may report is what an edge can take for its own: never that it interrupted a try or ran code. */
export type HubReport = z.output<typeof report> & Report

const fromHub = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('hello'),
    /** The newest version that the hub speaks. */
    version: z.number().int().min(1),
    software,
    /** Told anew by every process of a hub: the same one is the same hub coming back. */
    session: id,
    routes: z.array(name).max(routesMax),
    credit: z.object({ frames: count.min(1), bytes: count.min(1) }),
    /** The largest frame that it takes. */
    frameBytesMax: count.min(1),
  }),
  z.object({
    kind: z.literal('ack'),
    delivery: id,
    bornAt: z.number(),
    report,
    tookMs: z.number().min(0),
    /** Not tried now: this is what came of it before. */
    remembered: z.boolean().optional(),
  }),
  /** Not tried, and not going to be before they are sent again. */
  z.object({ kind: z.literal('returned'), deliveries: z.array(id).max(returnedMax) }),
  z.object({ kind: z.literal('drain') }),
  z.object({ kind: z.literal('error'), ...problem }),
])
export type FromHub = z.output<typeof fromHub>
export type Ack = Extract<FromHub, { kind: 'ack' }>
export type Hello = Extract<FromHub, { kind: 'hello' }>

const toHub = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('welcome'),
    /** The version that both speak from now on. */
    version: z.number().int().min(1),
    software,
    relay: name,
    /** Whoever hears nothing for this long takes the link for dead. */
    silenceMsMax: count.min(1),
  }),
  /** The rules of an endpoint, before its first delivery and whenever they change. */
  z.object({
    kind: z.literal('endpoint'),
    endpoint: id,
    route: name,
    timeoutMs: count.min(1),
    classify: z.record(text(8), z.enum(['permanent', 'retryable'])),
    headers,
    secrets: z.array(z.object({ secret: text(256), expiresAt: z.number().nullable() })).max(secretsMax),
  }),
  /** What waits at the hub for this endpoint and was not begun is to be returned. */
  z.object({ kind: z.literal('recall'), endpoint: id }),
  z.object({ kind: z.literal('drain') }),
  z.object({ kind: z.literal('error'), ...problem }),
])
export type ToHub = z.output<typeof toHub>
export type EndpointRulesMessage = Extract<ToHub, { kind: 'endpoint' }>

const deliverHead = z.object({
  kind: z.literal('deliver'),
  delivery: id,
  endpoint: id,
  bornAt: z.number(),
  attempt: z.number().int().min(1),
  /** null: in no order. */
  lane: z.string().nullable(),
  /** The delivery after whose end this one may begin; null: all before it in its lane have ended. */
  behind: id.nullable(),
  event: z.object({
    id,
    type: text(typeLengthMax),
    tenant: text(tenantLengthMax),
    key: z.string().nullable(),
    receivedAt: z.number(),
    contentType: z.string(),
    headers: z.record(z.string(), z.string()),
    request: z
      .object({
        source: z.string(),
        method: z.string(),
        query: z.string(),
        headers: z.record(z.string(), z.string()),
      })
      .nullable(),
  }),
})
export type DeliverHead = z.output<typeof deliverHead>
export type Deliver = Readonly<{ head: DeliverHead; body: Uint8Array }>

/** Why a link was closed, as WebSocket close codes. Hubs stay away after `revoked`, `replaced` and `version`. */
export const closeCodes = {
  goingAway: 1001,
  /** Never sent: what a WebSocket says when its connection is gone. */
  broken: 1006,
  restarting: 1012,
  protocol: 4400,
  revoked: 4401,
  silent: 4408,
  replaced: 4409,
  version: 4426,
} as const

/** What a WebSocket takes as the reason of a close, in bytes. */
const reasonBytesMax = 123

/** As much of it as fits. Whoever hands over more gets no close but an exception. */
export function closeReason(text: string): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(reasonBytesMax))
  return text.slice(0, read)
}

/** `unknown`: of a kind that a newer version has. `malformed`: nothing that can be understood; `problem` says why. */
export type Read<T> = T | Readonly<{ kind: 'unknown'; name: string }> | Readonly<{ kind: 'malformed'; problem: string }>

export function encode(message: FromHub | ToHub): string {
  return JSON.stringify(message)
}

export function readFromHub(data: string): Read<FromHub> {
  return read(fromHub, data)
}

export function readToHub(data: string): Read<ToHub> {
  return read(toHub, data)
}

const headLengthBytes = 4

export function encodeDeliver({ head, body }: Deliver): Buffer {
  const json = Buffer.from(JSON.stringify(head))
  const frame = Buffer.allocUnsafe(headLengthBytes + json.length + body.length)
  frame.writeUInt32BE(json.length, 0)
  json.copy(frame, headLengthBytes)
  frame.set(body, headLengthBytes + json.length)
  return frame
}

export function readDeliver(frame: Buffer): Deliver | Readonly<{ kind: 'malformed'; problem: string }> {
  const malformed = (problem: string) => ({ kind: 'malformed', problem }) as const
  if (frame.length < headLengthBytes) return malformed('a binary frame is shorter than its length')
  const bodyAt = headLengthBytes + frame.readUInt32BE(0)
  if (bodyAt > frame.length) return malformed('the head is longer than its frame')
  const head = parsed(frame.toString('utf8', headLengthBytes, bodyAt))
  const checked = deliverHead.safeParse(head)
  if (!checked.success) return malformed(firstIssue(checked.error))
  return { head: checked.data, body: frame.subarray(bodyAt) }
}

function read<T extends { kind: string }>(schema: z.ZodType<T>, data: string): Read<T> {
  const message = parsed(data)
  if (typeof message !== 'object' || message === null) return { kind: 'malformed', problem: 'this is not a message' }
  const checked = schema.safeParse(message)
  if (checked.success) return checked.data
  const { kind } = message as Readonly<{ kind?: unknown }>
  const [issue] = checked.error.issues
  // A kind that is not known further inside, of a report, is no message of a newer version.
  const isUnknown = typeof kind === 'string' && issue?.code === 'invalid_union' && issue.path.length === 1
  return isUnknown ? { kind: 'unknown', name: kind } : { kind: 'malformed', problem: firstIssue(checked.error) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Paths have names in them that the other side has chosen. */
const problemLengthMax = 300

function firstIssue(error: z.ZodError): string {
  const [issue] = error.issues
  if (issue === undefined) return 'it cannot be read'
  return `${issue.path.join('.') || 'message'}: ${issue.message}`.slice(0, problemLengthMax).toWellFormed()
}
