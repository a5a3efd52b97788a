import type { HandledEvent, HandledRecord, Subject } from './engine.ts'
import { EventForHandler } from './handled-event.ts'
import { RecordForHandler } from './handled-record.ts'
import type { RunContext } from './run-context.ts'

/** A handler of either kind. Which one it is follows from the endpoint or consumer that it belongs to. */
export type AnyHandler = (subject: HandledEvent & HandledRecord, context: RunContext) => unknown

/** What the handler of a task is called with. */
export function handledOf(task: Subject & Readonly<{ bytes: Uint8Array }>): HandledEvent & HandledRecord {
  const handled =
    'event' in task ? new EventForHandler(task.event, task.bytes) : new RecordForHandler(task.record, task.bytes)
  return handled as HandledEvent & HandledRecord
}
