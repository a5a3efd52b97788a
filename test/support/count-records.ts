import { appendFileSync } from 'node:fs'
import type { RecordHandler } from '../../src/engines/engine.ts'

/** Writes a line for each record that it processes; the file is named by the header `to`. Dies of the value `die`. */
const countRecords: RecordHandler = ({ value, headers, offset }, { attempt }) => {
  const text = Buffer.from(value ?? '').toString()
  const to = Buffer.from(headers.find(([name]) => name === 'to')?.[1] ?? '').toString()
  if (text === 'die') process.exit(3)
  appendFileSync(to, `${JSON.stringify({ text, offset, attempt, pid: process.pid })}\n`)
}

export default countRecords
