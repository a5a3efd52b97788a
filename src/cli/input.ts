import { Buffer } from 'node:buffer'
import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { readUpTo } from '../server/client.ts'
import { UsageError } from './failure.ts'
import type { Terminal } from './terminal.ts'

/** The server's limits are smaller; this only keeps a wrong file from filling the memory. */
const inputBytesMax = 64 * 1024 * 1024
const lineBytesMax = 16 * 1024 * 1024
const newline = 0x0a

/** The file that was named, or stdin. */
export function openInput(terminal: Terminal, file: string | undefined): Readable {
  return file === undefined || file === '-' ? terminal.stdin : createReadStream(file)
}

export async function readAll(input: Readable): Promise<Buffer> {
  try {
    return await readUpTo(input, inputBytesMax, 'the input')
  } catch (error) {
    throw error instanceof RangeError ? new UsageError(error.message) : error
  }
}

export type Line = Readonly<{ number: number; bytes: Buffer }>

/** The lines that hold something, as bytes: decoding could alter them. */
export async function* readLines(input: Readable): AsyncGenerator<Line> {
  let number = 0
  let rest: Buffer[] = []
  let restBytes = 0
  for await (const chunk of input as AsyncIterable<Buffer>) {
    let from = 0
    for (let at = chunk.indexOf(newline); at >= 0; at = chunk.indexOf(newline, from)) {
      number += 1
      const bytes = Buffer.concat([...rest, chunk.subarray(from, at)])
      rest = []
      restBytes = 0
      from = at + 1
      if (!isBlank(bytes)) yield { number, bytes }
    }
    rest.push(chunk.subarray(from))
    restBytes += chunk.length - from
    if (restBytes > lineBytesMax) throw new UsageError(`line ${number + 1} is longer than ${lineBytesMax} bytes`)
  }
  const bytes = Buffer.concat(rest)
  if (!isBlank(bytes)) yield { number: number + 1, bytes }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}
