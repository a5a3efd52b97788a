import { hash } from 'node:crypto'
import type { Tally } from './import-records.ts'

const nul = '\u0000'
/** What stands for a NUL in databases that have none. */
const replacement = '\ufffd'
const digits = 16

export const noRecords: Tally = { count: 0, sum: '0'.repeat(digits) }

/** Adds records to a tally: the sum of a 64-bit hash of each, whatever their order. */
export function tallied(before: Tally, records: readonly unknown[]): Tally {
  let sum = BigInt(`0x${before.sum}`)
  for (const record of records) sum += BigInt(`0x${hash('sha256', canonical(record)).slice(0, digits)}`)
  return { count: before.count + records.length, sum: BigInt.asUintN(64, sum).toString(16).padStart(digits, '0') }
}

/** The same text for the same content, in whichever order its fields come. */
function canonical(value: unknown): string {
  if (value instanceof Uint8Array) return `"${hash('sha256', value)}"`
  if (typeof value === 'string') return JSON.stringify(value.includes(nul) ? value.replaceAll(nul, replacement) : value)
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  const texts = fields.map(([name, field]) => `${canonical(name)}:${canonical(field)}`)
  return `{${texts.sort().join()}}`
}
