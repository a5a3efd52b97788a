import { Buffer } from 'node:buffer'

export type EventFields = Readonly<{ key?: string; tenant?: string; header?: Readonly<Record<string, string>> }>

/** The event around its data. The data's bytes are copied, not printed anew: numbers and key order stay as they are. */
export function eventJson(type: string, data: Uint8Array, { key, tenant, header }: EventFields): Buffer {
  const head = JSON.stringify({ type, key, tenant, headers: header }).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"data":`), data, Buffer.from('}')])
}
