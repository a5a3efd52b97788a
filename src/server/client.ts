import { Buffer } from 'node:buffer'
import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { Readable } from 'node:stream'
import { withoutCredentials } from '../core/url-credentials.ts'

export type ClientSettings = Readonly<{ url: string; apiKey: string | null }>

export type FieldError = Readonly<{ path: string; message: string }>

/** What a Posthorn server answered instead of a success (RFC 9457), with every wrong field. */
export class ApiProblem extends Error {
  readonly status: number
  readonly type: string
  readonly errors: readonly FieldError[]
  /** How long the server asks to wait before the next try; null when it does not say. */
  readonly retryAfterMs: number | null

  constructor(status: number, problem: Problem, retryAfterMs: number | null) {
    super(problem.detail ?? problem.title ?? `The server answered ${status}.`)
    this.name = 'ApiProblem'
    this.status = status
    this.type = problem.type ?? 'about:blank'
    this.errors = problem.errors
    this.retryAfterMs = retryAfterMs
  }
}

/** No usable answer came from the address: nothing is known about what the server did. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
}

export type Query = Readonly<Record<string, string | number | undefined>>

export type Content = Readonly<{ bytes: Uint8Array | string; type: string }>

export type RequestOptions = Readonly<{
  query?: Query
  /** Sent as JSON. `content` is for what must be sent byte by byte. */
  body?: unknown
  content?: Content
  headers?: Readonly<Record<string, string>>
  /** How long nothing may come from the server. */
  silenceMsMax?: number
  signal?: AbortSignal
}>

type Problem = Readonly<{ type?: string; title?: string; detail?: string; errors: readonly FieldError[] }>
type Answer = Readonly<{ status: number; headers: IncomingMessage['headers']; bytes: Buffer }>

const silenceMsDefault = 60_000
/** For what a server works on before it answers: a try as long as its endpoint allows, a great many rows. */
export const longSilenceMsMax = 600_000
const lineLengthMax = 1024 * 1024
const answerBytesMax = 64 * 1024 * 1024

/** The REST API of a running Posthorn, for the command line. */
export class ApiClient {
  readonly url: string
  /** As it may be printed. */
  readonly shownUrl: string
  readonly #apiKey: string | null

  constructor(settings: ClientSettings) {
    this.url = settings.url.replace(/\/+$/, '')
    this.shownUrl = withoutCredentials(this.url)
    this.#apiKey = settings.apiKey
  }

  get(path: string, query: Query = {}, signal?: AbortSignal): Promise<unknown> {
    return this.json('GET', path, signal === undefined ? { query } : { query, signal })
  }

  post(path: string, body?: unknown): Promise<unknown> {
    return this.json('POST', path, body === undefined ? {} : { body })
  }

  /** The parsed answer; undefined when it has no body. */
  async json(method: string, path: string, options: RequestOptions = {}): Promise<unknown> {
    const { bytes, status } = await this.#request(method, path, options)
    if (bytes.length === 0) return undefined
    const parsed = parseJson(bytes)
    if (parsed === undefined)
      throw new Unreachable(`${this.shownUrl} answered ${status} with something that is not JSON.`)
    return parsed
  }

  /** The exact bytes of the answer. */
  async bytes(path: string): Promise<Uint8Array> {
    return (await this.#request('GET', path, {})).bytes
  }

  /** The lines of an answer that does not end by itself, as they come. */
  async *lines(path: string, query: Query, signal: AbortSignal): AsyncGenerator<string> {
    const response = await this.#send('GET', path, { query, signal })
    try {
      if (response.statusCode !== 200) throw problemOf(await answerOf(response), this.shownUrl)
      let rest = ''
      for await (const chunk of response.setEncoding('utf8')) {
        const lines = `${rest}${chunk}`.split('\n')
        rest = lines.pop() ?? ''
        if (rest.length > lineLengthMax) throw new RangeError(`a line is longer than ${lineLengthMax} characters`)
        yield* lines
      }
    } catch (error) {
      throw error instanceof ApiProblem || !(error instanceof Error) ? error : this.#whyUnreachable(error)
    } finally {
      response.destroy()
    }
  }

  async #request(method: string, path: string, options: RequestOptions): Promise<Answer> {
    const answer = await this.#exchange(method, path, options)
    if (answer.status >= 200 && answer.status < 300) return answer
    throw problemOf(answer, this.shownUrl)
  }

  async #exchange(method: string, path: string, options: RequestOptions): Promise<Answer> {
    try {
      return await answerOf(await this.#send(method, path, options))
    } catch (error) {
      throw error instanceof Unreachable || !(error instanceof Error) ? error : this.#whyUnreachable(error)
    }
  }

  #send(method: string, path: string, options: RequestOptions): Promise<IncomingMessage> {
    const url = new URL(`${this.url}${path}`)
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value))
    }
    const content = contentOf(options)
    const headers: Record<string, string | number> = { accept: 'application/json', ...options.headers }
    if (this.#apiKey !== null) headers.authorization = `Bearer ${this.#apiKey}`
    if (content !== null) {
      headers['content-type'] = content.type
      headers['content-length'] = Buffer.byteLength(content.bytes)
    }
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'https:' ? requestHttps : requestHttp
      const request = send(url, { method, headers, ...(options.signal && { signal: options.signal }) })
      const { silenceMsMax = silenceMsDefault } = options
      request.setTimeout(silenceMsMax, () => request.destroy(new Error(`no answer for ${silenceMsMax / 1000} s`)))
      request.on('error', (error) => reject(this.#whyUnreachable(error)))
      request.on('response', resolve)
      request.end(content?.bytes)
    })
  }

  #whyUnreachable(error: Error): Error {
    if (error.name === 'AbortError') return error
    const code = 'code' in error ? String(error.code) : ''
    const advice = 'start one with `npm start` (or `posthorn start`), or set POSTHORN_URL'
    if (code === 'ECONNREFUSED' || code === 'ENOTFOUND') {
      return new Unreachable(`no Posthorn answers at ${this.shownUrl}; ${advice}`, { cause: error })
    }
    const what = error.message === '' ? code : error.message
    return new Unreachable(`the exchange with ${this.shownUrl} broke off: ${what}`, { cause: error })
  }
}

async function answerOf(response: IncomingMessage): Promise<Answer> {
  const bytes = await readUpTo(response, answerBytesMax, 'the answer')
  return { status: response.statusCode ?? 0, headers: response.headers, bytes }
}

function contentOf(options: RequestOptions): Content | null {
  if (options.content !== undefined) return options.content
  return options.body === undefined ? null : { bytes: JSON.stringify(options.body), type: 'application/json' }
}

/** All of a stream, or an error by this name when it is larger than that. */
export async function readUpTo(stream: Readable, bytesMax: number, name: string): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream) {
    size += chunk.length
    if (size > bytesMax) throw new RangeError(`${name} is larger than ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function problemOf({ status, headers, bytes }: Answer, url: string): ApiProblem {
  const parsed = parseJson(bytes)
  const retryAfterS = Number(headers['retry-after'])
  const retryAfterMs = headers['retry-after'] === undefined || !(retryAfterS >= 0) ? null : retryAfterS * 1000
  if (!isRecord(parsed)) {
    const detail = `${url} answered ${status}, and not as Posthorn does; is POSTHORN_URL right?`
    return new ApiProblem(status, { detail, errors: [] }, retryAfterMs)
  }
  const errors = Array.isArray(parsed.errors) ? parsed.errors.filter(isRecord).map(fieldErrorOf) : []
  const problem: Problem = {
    ...(typeof parsed.type === 'string' && { type: parsed.type }),
    ...(typeof parsed.title === 'string' && { title: parsed.title }),
    ...(typeof parsed.detail === 'string' && { detail: parsed.detail }),
    errors,
  }
  return new ApiProblem(status, problem, retryAfterMs)
}

function fieldErrorOf(error: Record<string, unknown>): FieldError {
  return { path: String(error.path ?? ''), message: String(error.message ?? '') }
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
