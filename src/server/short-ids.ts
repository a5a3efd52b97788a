import { shortIdPrefix } from '../core/id.ts'
import { type FieldError, validationProblem } from './problem.ts'
import type { Scope } from './scope.ts'
import type { ServerParts } from './server.ts'

/** Ids that begin with a text, within the scope; one more than `candidatesMax` at most need to be answered. */
export type IdLookup = (beginning: string, scope: Scope) => Promise<readonly string[]>

/** Where a request names things by their ids. */
const idFields = ['id', 'endpoint', 'event'] as const
const candidatesMax = 3

type Named = Readonly<{ params: object; query: object; body: unknown }>

/**
 * The same request with every short id completed. What begins no id, or is none, stays as it is: it is for the route to
 * say that there is no such thing. One that begins several ids is refused.
 */
export async function withWholeIds<C extends Named & { scope: Scope }>(context: C, lookUp: IdLookup): Promise<C> {
  const filter = filterIn(context.body)
  const places: readonly [path: string, holder: object | null][] = [
    ['', context.params],
    ['', context.query],
    ['filter.', filter],
  ]
  const errors: FieldError[] = []
  const whole = async (text: unknown, path: string): Promise<unknown> => {
    if (typeof text !== 'string' || shortIdPrefix(text) === null) return text
    const [found, ...others] = await lookUp(text, context.scope)
    if (found === undefined) return text
    if (others.length === 0) return found
    errors.push({ path, message: ambiguity(text, [found, ...others]) })
    return text
  }
  const [params, query, completed] = await Promise.all(
    places.map(async ([path, holder]) => (holder === null ? null : completedIn(holder, path, whole))),
  )
  if (errors.length > 0) throw validationProblem(errors)
  const body = completed === null ? context.body : { ...(context.body as object), filter: completed }
  return { ...context, params, query, body }
}

type Whole = (text: unknown, path: string) => Promise<unknown>

async function completedIn(holder: object, path: string, whole: Whole): Promise<object> {
  const entries = Object.entries(holder).map(async ([name, value]) => {
    if (name === 'ids' && Array.isArray(value)) {
      return [name, await Promise.all(value.map((id, index) => whole(id, `${path}ids[${index}]`)))]
    }
    const isId = idFields.some((field) => field === name)
    return [name, isId ? await whole(value, `${path}${name}`) : value]
  })
  return Object.fromEntries(await Promise.all(entries))
}

function filterIn(body: unknown): object | null {
  if (typeof body !== 'object' || body === null || !('filter' in body)) return null
  return typeof body.filter === 'object' ? body.filter : null
}

function ambiguity(text: string, ids: readonly string[]): string {
  const shown = ids.slice(0, candidatesMax).join(', ')
  const more = ids.length > candidatesMax ? ' and more' : ''
  return `${text} is the beginning of several ids: ${shown}${more}; write more of the one you mean`
}

/** Looks in memory for what is kept there, and in the store for the rest. */
export function idLookup(
  parts: Pick<ServerParts, 'store' | 'catalogue' | 'sources' | 'relays'>,
  keys: Listed,
): IdLookup {
  const lists: Readonly<Record<string, Listed>> = {
    ep: parts.catalogue,
    src: parts.sources,
    rly: parts.relays,
    key: keys,
  }
  return async (beginning, scope) => {
    const limit = candidatesMax + 1
    const known = lists[shortIdPrefix(beginning) ?? '']
    if (known === undefined) return parts.store.findIds({ beginning, ...scope.filter(), limit })
    const isMeant = ({ id, tenant }: Item) => id.startsWith(beginning) && scope.sees(tenant)
    const isNamed = (item: Item) => item.name === beginning && scope.sees(item.tenant)
    // Sources and relays also go by their names, which come first.
    if (known.list().some(isNamed)) return []
    return known
      .list()
      .filter(isMeant)
      .slice(0, limit)
      .map(({ id }) => id)
  }
}

type Item = Readonly<{ id: string; tenant: string | null; name?: string | null }>
type Listed = Readonly<{ list(): readonly Item[] }>
