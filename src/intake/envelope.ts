import { Buffer } from 'node:buffer'

export type Enveloped = Readonly<{ body: Uint8Array; dataOffset: number }>

/**
 * Puts `{"type":…,"timestamp":…,"data":…}` around the sender's data. The data's bytes are copied as they are, so
 * numbers, spelling and key order arrive as they were sent.
 */
export function envelope(type: string, receivedAt: number, data: Uint8Array): Enveloped {
  const head = `{"type":${JSON.stringify(type)},"timestamp":"${instant(receivedAt)}","data":`
  const dataOffset = Buffer.byteLength(head)
  const body = Buffer.allocUnsafe(dataOffset + data.length + 1)
  if (dataOffset === head.length) body.write(head, 0, 'latin1')
  else body.write(head, 0)
  body.set(data, dataOffset)
  body[body.length - 1] = 0x7d
  return { body, dataOffset }
}

let lastAt = Number.NaN
let lastInstant = ''

/** Many events arrive in one millisecond: its text is made once. */
function instant(at: number): string {
  if (at !== lastAt) {
    lastInstant = new Date(at).toISOString()
    lastAt = at
  }
  return lastInstant
}
