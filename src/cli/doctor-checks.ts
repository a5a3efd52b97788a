import { createServer } from 'node:net'
import type { Config } from '../config.ts'
import { withoutCredentials } from '../core/url-credentials.ts'
import type { ClientSettings } from '../server/client.ts'
import type { Check } from '../store/database.ts'
import { isRow } from './answers.ts'

const answerMsMax = 3_000
/** A sane clock is in here. */
const years = { first: 2024, last: 2100 }
const clockMsWarn = 5_000
/** Receivers refuse a signature whose time is further off. */
const clockMsFail = 300_000

export function checkClock(now: number, serverAt: number | null): Check {
  const check = 'clock'
  const found = new Date(now).toISOString()
  const year = new Date(now).getUTCFullYear()
  const advice = 'set the clock of this machine, and let it be kept by NTP: signatures and retention depend on it'
  if (year < years.first || year > years.last) return { check, status: 'fail', found, advice }
  if (serverAt === null) return { check, status: 'ok', found, advice: null }
  const apartMs = Math.abs(now - serverAt)
  const apart = `${found}, ${Math.round(apartMs / 1000)} s from the server's`
  if (apartMs > clockMsFail) return { check, status: 'fail', found: apart, advice }
  if (apartMs > clockMsWarn) return { check, status: 'warn', found: apart, advice }
  return { check, status: 'ok', found: `${found}, the server agrees`, advice: null }
}

/** Whether what processes agree by answers. */
export async function checkRedis({ redisUrl }: Config): Promise<readonly Check[]> {
  if (redisUrl === null) return []
  const check = 'redis'
  const at = withoutCredentials(redisUrl)
  const { RedisConnection } = await import('../shared-state/redis-connection.ts')
  try {
    const why = await RedisConnection.whyNot(redisUrl)
    if (why === null) return [{ check, status: 'ok', found: at, advice: null }]
    const advice =
      'start it or correct POSTHORN_REDIS_URL; until then each process counts failures and probes by itself'
    return [{ check, status: 'warn', found: `${at}: ${why}`, advice }]
  } catch (error) {
    return [{ check, status: 'fail', found: error instanceof Error ? error.message : String(error), advice: null }]
  }
}

export type ServerFindings = Readonly<{ isUp: boolean; dateAt: number | null; checks: readonly Check[] }>

/** Asks the server that the other commands speak to. */
export async function checkServer({ url, apiKey }: ClientSettings, version: string): Promise<ServerFindings> {
  const health = await ask(`${url}/healthz`, null)
  if (health === null) {
    const advice = 'start it with `posthorn start`, or set POSTHORN_URL to where it is'
    const check: Check = {
      check: 'server',
      status: 'warn',
      found: `nothing answers at ${withoutCredentials(url)}`,
      advice,
    }
    return { isUp: false, dateAt: null, checks: [check] }
  }
  const { date, body } = health
  const dateAt = date === null ? null : Date.parse(date)
  if (body?.status !== 'ok') {
    const found = `what answers at ${withoutCredentials(url)} is no Posthorn`
    const advice = 'set POSTHORN_URL to where Posthorn is'
    return { isUp: false, dateAt, checks: [{ check: 'server', status: 'fail', found, advice }] }
  }
  const checks = [
    versionCheck(url, String(body.version), version),
    await readyCheck(url),
    await keyCheck(url, apiKey),
    await deliveryCheck(url, apiKey),
  ]
  return { isUp: true, dateAt, checks }
}

function versionCheck(url: string, theirs: string, ours: string): Check {
  const found = `Posthorn ${theirs} answers at ${withoutCredentials(url)}`
  if (theirs === ours) return { check: 'server', status: 'ok', found, advice: null }
  return { check: 'server', status: 'warn', found, advice: `this command is version ${ours}: bring both to the same` }
}

async function readyCheck(url: string): Promise<Check> {
  const check = 'readiness'
  const ready = await ask(`${url}/readyz`, null)
  const reasons = Array.isArray(ready?.body?.reasons) ? ready.body.reasons.join(' ') : ''
  if (ready?.status !== 200) {
    return { check, status: 'fail', found: 'not ready', advice: reasons || 'look into the log of the server' }
  }
  if (ready.body?.paused !== true)
    return { check, status: 'ok', found: 'events are taken in and delivered', advice: null }
  const advice = 'when it may deliver again: posthorn dispatch resume'
  return { check, status: 'warn', found: 'all delivery is paused', advice }
}

async function keyCheck(url: string, apiKey: string | null): Promise<Check> {
  const check = 'API key'
  const answer = await ask(`${url}/v1/endpoints`, apiKey)
  if (answer?.status === 401) {
    const found = apiKey === null ? 'the server wants a key' : 'the server does not know this key'
    return { check, status: 'fail', found, advice: 'set POSTHORN_API_KEY to a key of this server' }
  }
  if (answer === null || answer.status >= 500) {
    return { check, status: 'warn', found: 'the server did not answer', advice: 'look into the log of the server' }
  }
  const found = apiKey === null ? 'none is needed on this machine' : 'the server knows it'
  return { check, status: 'ok', found, advice: null }
}

/** How delivery itself is: a server can be set up well and bring nothing to anybody. */
async function deliveryCheck(url: string, apiKey: string | null): Promise<Check> {
  const check = 'delivery'
  const answer = await ask(`${url}/v1/status?limit=1`, apiKey)
  if (answer?.status !== 200 || answer.body === null) {
    const found = `the server did not tell its status${answer === null ? '' : ` (${answer.status})`}`
    return {
      check,
      status: 'warn',
      found,
      advice: 'use a key with the role read or admin, and a server of this version',
    }
  }
  const { state, hints, problems } = answer.body
  const found = deliveryText(answer.body)
  if (state === 'ok') return { check, status: 'ok', found, advice: null }
  const [hint] = Array.isArray(hints) ? hints : []
  const sentences = Array.isArray(problems) ? problems.map((problem) => `${problem} `).join('') : ''
  const advice = `${sentences}posthorn status shows more; begin with: ${hint}`
  return { check, status: state === 'trouble' ? 'fail' : 'warn', found, advice }
}

function deliveryText({ attention, attentionMore, waiting, deadLetters, state }: Asked['body'] & object): string {
  const endpoints = (Array.isArray(attention) ? attention.length : 0) + Number(attentionMore)
  const waits = isRow(waiting) && typeof waiting.count === 'number' ? waiting.count.toLocaleString('en') : 'unknown'
  const dead = isRow(deadLetters) ? Number(deadLetters.last24h).toLocaleString('en') : 'unknown'
  const who = endpoints === 0 ? 'no endpoint needs attention' : `endpoints that need attention: ${endpoints}`
  return `${state}; ${who}; waiting: ${waits}; dead letters in 24 h: ${dead}`
}

type Asked = Readonly<{ status: number; date: string | null; body: Readonly<Record<string, unknown>> | null }>

/** null: no answer at all. */
async function ask(url: string, apiKey: string | null): Promise<Asked | null> {
  try {
    const headers: Record<string, string> = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(answerMsMax), redirect: 'manual' })
    const text = await response.text()
    return { status: response.status, date: response.headers.get('date'), body: objectIn(text) }
  } catch {
    return null
  }
}

function objectIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isRow(value) ? value : null
  } catch {
    return null
  }
}

/** Whether the server could listen where it is told to; if one is up, it does so already. */
export async function checkPorts({ host, port, publicHost, publicPort }: Config, isUp: boolean): Promise<Check[]> {
  if (isUp) return []
  const checks = [await checkPort('port', host, port)]
  if (publicPort !== null) checks.push(await checkPort('public port', publicHost, publicPort))
  return checks
}

async function checkPort(check: string, host: string, port: number): Promise<Check> {
  const problem = await listeningProblem(host, port)
  if (problem === null) return { check, status: 'ok', found: `${host}:${port} is free`, advice: null }
  const advice = 'stop what listens there, or choose another with --port and --host'
  return { check, status: 'fail', found: `cannot listen on ${host}:${port}: ${problem}`, advice }
}

function listeningProblem(host: string, port: number): Promise<string | null> {
  const { promise, resolve } = Promise.withResolvers<string | null>()
  const server = createServer()
  server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
  server.listen({ host, port }, () => server.close(() => resolve(null)))
  return promise
}
