// One large event for many endpoints, and what the server took for it.
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import type { ServerProcess } from './server-process.ts'

/** No compression makes it smaller. */
export const body = randomBytes(1_000_000)
export const bodyHash = createHash('sha256').update(body).digest('hex')

export const env = {
  POSTHORN_MEMORY_BYTES_MAX: String(16 * 1024 * 1024),
  NODE_OPTIONS: '--max-old-space-size=128',
}

const json = { 'content-type': 'application/json' }
const atOnce = 50

export async function addEndpoints({ url }: ServerProcess, endpoints: readonly object[]): Promise<void> {
  for (let n = 0; n < endpoints.length; n += atOnce) {
    const made = endpoints
      .slice(n, n + atOnce)
      .map((endpoint) =>
        fetch(`${url}/v1/endpoints`, { method: 'POST', headers: json, body: JSON.stringify(endpoint) }),
      )
    for (const response of await Promise.all(made)) assert.equal(response.status, 201, await response.text())
  }
}

export async function send({ url }: ServerProcess): Promise<void> {
  const headers = { 'content-type': 'application/octet-stream' }
  const response = await fetch(`${url}/v1/events/wide`, { method: 'POST', headers, body })
  assert.equal(response.status, 202, await response.text())
}

/** The most that the process ever had must be less than this. */
export function checkPeak(t: TestContext, { pid }: ChildProcess, mbMax: number): void {
  const file = `/proc/${pid}/status`
  if (!existsSync(file)) {
    t.diagnostic('peak memory is not measured: there is no /proc')
    return
  }
  const [, kib] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(file, 'utf8')) ?? []
  const peakMb = Math.round(Number(kib) / 1_024)
  t.diagnostic(`peak: ${peakMb} MB`)
  assert.ok(peakMb < mbMax, `${peakMb} MB`)
}
