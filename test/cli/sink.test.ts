import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { openSink, type Received } from '../../src/cli/open-sink.ts'
import { readScript, type Script, stepAt } from '../../src/cli/sink-script.ts'
import { parseSecret, signatureHeader } from '../../src/core/signature.ts'
import { posthorn, start } from './command.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const key = parseSecret(secret)!

describe('a script', () => {
  const steps = (text: string, count: number) =>
    Array.from({ length: count }, (_, index) => {
      const step = stepAt(scriptOf(text), index)
      return step.kind === 'answer' ? step.status : step.kind
    })

  test('is followed in order, and its last part repeats', () => {
    assert.deepEqual(steps('503x3,200', 6), [503, 503, 503, 200, 200, 200])
    assert.deepEqual(steps('reset, hang x 2 ,204', 5), ['reset', 'hang', 'hang', 204, 204])
    assert.deepEqual(steps('500', 2), [500, 500])
  })

  test('may ask for patience', () => {
    assert.deepEqual(stepAt(scriptOf('429+retry-after=5x2,200'), 1), { kind: 'answer', status: 429, retryAfterS: 5 })
  })

  for (const text of [
    '',
    '503x',
    '503x0',
    'x3',
    '99',
    '199',
    '600',
    '20',
    'crash',
    '200,,200',
    '503+after=5',
    '200x9999999',
  ]) {
    test(`${JSON.stringify(text)} is refused with what is allowed`, () => {
      const read = readScript(text)
      assert.ok('problem' in read)
      assert.match(read.problem, /reset +break/)
    })
  }
})

describe('the sink', () => {
  test('answers by its script and reports what it got', async (t) => {
    const { url, received } = await sinkFor(t, '503+retry-after=7,200')
    const first = await fetch(`${url}/hook?a=1`, {
      method: 'POST',
      body: '{"a":1}',
      headers: signed('evt_1', '{"a":1}'),
    })
    assert.deepEqual([first.status, first.headers.get('retry-after')], [503, '7'])
    assert.equal((await fetch(url)).status, 200)
    const { method, path, eventType, webhookId, attempt, body, signature, answer } = received[0]!
    assert.deepEqual(
      { method, path, eventType, webhookId, attempt, body: body.toString(), signature, answer },
      {
        method: 'POST',
        path: '/hook?a=1',
        eventType: 'order.created',
        webhookId: 'evt_1',
        attempt: 2,
        body: '{"a":1}',
        signature: 'ok',
        answer: '503+retry-after=7',
      },
    )
    assert.deepEqual([received[1]?.signature, received[1]?.attempt], ['bad', null])
  })

  test('breaks the connection off when the script says reset', async (t) => {
    const { url, received } = await sinkFor(t, 'reset,200')
    await assert.rejects(fetch(url, { method: 'POST', body: 'x' }))
    assert.equal((await fetch(url)).status, 200)
    assert.deepEqual(
      received.map(({ answer }) => answer),
      ['reset', '200'],
    )
  })

  test('never answers when the script says hang, and closes all the same', async (t) => {
    const { url, close, next } = await sinkFor(t, 'hang')
    const answer = fetch(url)
    answer.catch(() => undefined)
    await next()
    await close()
    await assert.rejects(answer)
  })

  test('closes while an answer is delayed or a request is half-sent', async (t) => {
    const { url, close, received } = await sinkFor(t, '200', 600_000)
    const delayed = fetch(url)
    delayed.catch(() => undefined)
    const half = connect(Number(new URL(url).port), '127.0.0.1')
    half.on('error', () => undefined)
    const halfClosed = new Promise((resolve) => half.on('close', resolve))
    await new Promise((resolve) => half.write('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc', resolve))
    await close()
    await assert.rejects(delayed)
    await halfClosed
    assert.deepEqual(received, [])
  })
})

describe('posthorn sink', () => {
  test('prints a line for each request and ends with 0 on SIGTERM', async () => {
    const sink = start(['sink', '--port', '0', '--script', '500,204', '--verify', secret])
    const url = urlIn(await sink.line(/listens on/))
    await fetch(`${url}/a`, { method: 'POST', body: 'hi', headers: signed('evt_9', 'hi') })
    await sink.line(/\/a/)
    await fetch(`${url}/b\u001b[31m`, { method: 'PUT' })
    await sink.line(/\/b/)
    const { code, stdout, stderr } = await sink.stop('SIGTERM')
    const [first, second] = stdout.trimEnd().split('\n')
    assert.match(
      first!,
      /^[\d:.]+ {2}POST {2}\/a {2}order\.created {2}evt_9 {2}attempt 2 {2}2 B {2}signature ok {2}→ 500$/,
    )
    assert.match(second!, /PUT {2}\/b%1B\[31m {2}- {2}- {2}attempt - {2}0 B {2}signature bad \(.*\) {2}→ 204$/)
    assert.match(stderr, /2 requests received/)
    assert.equal(code, 0)
  })

  test('prints JSON lines with bodies, also to a pipe', async () => {
    const sink = start(['sink', '--port', '0', '-o', 'jsonl', '--body', '--delay', '1ms'])
    const url = urlIn(await sink.line(/listens on/))
    await fetch(url, { method: 'POST', body: 'a\nb' })
    const row = JSON.parse(await sink.line(/^\{/))
    assert.deepEqual(
      [row.method, row.size, row.body, row.signature, row.answer],
      ['POST', 3, 'a\nb', 'unchecked', '200'],
    )
    assert.equal((await sink.stop('SIGINT')).code, 0)
  })

  test('is silent when told so', async () => {
    const sink = start(['sink', '--port', '0', '--quiet'])
    await fetch(urlIn(await sink.line(/listens on/)))
    const { stdout, stderr } = await sink.stop()
    assert.equal(stdout, '')
    assert.match(stderr, /1 request received/)
  })

  test('says that its port is taken, with exit code 1', async () => {
    const sink = start(['sink', '--port', '0'])
    const { port } = new URL(urlIn(await sink.line(/listens on/)))
    const second = await posthorn(['sink', '--port', port])
    assert.equal(second.code, 1)
    assert.match(second.stderr, new RegExp(`already listens on 127\\.0\\.0\\.1:${port}`))
    await sink.stop()
  })

  for (const [flag, value, says] of [
    ['--script', '503x3,crash', /"crash" is not part of a script[\s\S]*hang +never answer/],
    ['--verify', 'whsec_short', /whsec_ and then 24 to 64 bytes/],
    ['--delay', '-1', /A duration reads like/],
    ['--port', '70000', /whole number from 0 to 65535/],
  ] as const) {
    test(`refuses ${flag} ${value} with exit code 2`, async () => {
      const { code, stderr } = await posthorn(['sink', flag, value])
      assert.equal(code, 2)
      assert.match(stderr, says)
    })
  }
})

type Cleanup = Readonly<{ after: (fn: () => Promise<void>) => void }>

async function sinkFor(t: Cleanup, script: string, delayMs = 0) {
  const received: Received[] = []
  let arrived = Promise.withResolvers<void>()
  const onRequest = (request: Received) => {
    received.push(request)
    arrived.resolve()
    arrived = Promise.withResolvers()
  }
  const options = { host: '127.0.0.1', port: 0, script: scriptOf(script), delayMs, keys: [key], onRequest }
  const { url, close } = await openSink(options)
  t.after(close)
  return { url, close, received, next: () => arrived.promise }
}

function scriptOf(text: string): Script {
  const read = readScript(text)
  assert.ok('script' in read)
  return read.script
}

function signed(id: string, body: string): Record<string, string> {
  const timestampS = Math.floor(Date.now() / 1000)
  const hmac = (hmacKey: Uint8Array, head: string, bytes: Uint8Array) =>
    createHmac('sha256', hmacKey).update(head).update(bytes).digest('base64')
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestampS),
    'webhook-signature': signatureHeader(hmac, [key], { id, timestampS, body: Buffer.from(body) }),
    'posthorn-event-type': 'order.created',
    'posthorn-attempt': '2',
  }
}

function urlIn(line: string): string {
  return /http:\/\/\S+/.exec(line)![0]
}
