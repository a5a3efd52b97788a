import { z } from 'zod'
import type { Notice } from '../core/notice.ts'
import { everyNotice, type NoticeFilter } from '../core/notice-filter.ts'

/** What one process says to the others about notices. */
export type NoticeMessage = Listening | Happened

/** So long, somebody listens there to what passes one of the filters. No filter: nobody does. */
export type Listening = Readonly<{
  kind: 'listening'
  from: string
  forMs: number
  filters: readonly NoticeFilter[]
}>

export type Happened = Readonly<{ kind: 'happened'; from: string; items: readonly Item[] }>

/** A notice and when it was published, or that so many notices of a tenant were dropped. */
export type Item = Readonly<{ at: number; notice: Notice }> | Readonly<{ tenant: string | null; dropped: number }>

const words = z.array(z.string())
const filter = z.object({
  tenant: z.string().nullable(),
  endpointId: z.string().nullable(),
  types: words,
  kinds: words,
})
const instant = z.number().min(0).max(8_640_000_000_000_000)
/** A process of another version may publish notices that are not known here: they are passed on as they are. */
const notice = z.looseObject({
  kind: z.string().regex(/^[a-z._]+$/),
  tenant: z.string().nullable(),
  startedAt: instant.optional(),
})
const message = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('listening'), from: z.string(), forMs: z.number(), filters: z.array(filter) }),
  z.object({
    kind: z.literal('happened'),
    from: z.string(),
    items: z.array(
      z.union([z.object({ at: instant, notice }), z.object({ tenant: z.string().nullable(), dropped: z.number() })]),
    ),
  }),
])

/** null: it is no message that this version understands. */
export function messageIn(text: string): NoticeMessage | null {
  try {
    const parsed = message.safeParse(JSON.parse(text))
    return parsed.success ? (parsed.data as NoticeMessage) : null
  } catch {
    return null
  }
}

/** Filters that do not fit into one text become one for everything: who listens looks again anyway. */
export function listeningText({ from, forMs, filters }: Omit<Listening, 'kind'>, bytesMax: number): string {
  const textWith = (some: readonly NoticeFilter[]) => JSON.stringify({ kind: 'listening', from, forMs, filters: some })
  const text = textWith(filters)
  return Buffer.byteLength(text) <= bytesMax ? text : textWith([everyNotice])
}

/** The bytes that one item may have. */
export function itemBytesMax(from: string, bytesMax: number): number {
  return bytesMax - Buffer.byteLength(happenedText(from, []))
}

/** As few texts as hold all items, each of which is JSON. */
export function happenedTexts(from: string, items: readonly string[], bytesMax: number): readonly string[] {
  const roomBytes = itemBytesMax(from, bytesMax)
  const texts: string[] = []
  let some: string[] = []
  let bytes = 0
  for (const item of items) {
    const itemBytes = Buffer.byteLength(item) + 1
    if (some.length > 0 && bytes + itemBytes > roomBytes) {
      texts.push(happenedText(from, some))
      some = []
      bytes = 0
    }
    some.push(item)
    bytes += itemBytes
  }
  if (some.length > 0) texts.push(happenedText(from, some))
  return texts
}

function happenedText(from: string, items: readonly string[]): string {
  return `{"kind":"happened","from":${JSON.stringify(from)},"items":[${items.join(',')}]}`
}
