import type { z } from 'zod'
import { PosthornError } from '../core/errors.ts'
import type { FieldError } from '../server/problem.ts'
import { fieldErrors } from '../server/schemas.ts'

/** Reads what was handed in, or throws an error that names every wrong field. */
export function readGiven<S extends z.ZodType>(schema: S, value: unknown, what: string): z.output<S> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw invalid(what, fieldErrors(parsed.error.issues))
}

export function invalid(what: string, errors: readonly FieldError[]): PosthornError {
  const lines = errors.map(({ path, message }) => (path === '' ? message : `${path} ${message}`))
  const text = lines.join('; ')
  return new PosthornError('invalid', `${what} cannot be used: ${text}${text.endsWith('?') ? '' : '.'}`)
}

export function notFound(what: string, id: string): PosthornError {
  return new PosthornError('not_found', `There is no ${what} ${id}.`)
}

/** As the REST API would get it: there numbers of a query and instants are text. */
export function asTexts(values: object): object {
  const entries = Object.entries(values).flatMap(([name, value]) => {
    if (value === undefined) return []
    return [[name, value instanceof Date ? instantOf(value) : typeof value === 'number' ? String(value) : value]]
  })
  return Object.fromEntries(entries)
}

function instantOf(date: Date): string {
  return Number.isNaN(date.getTime()) ? 'no date' : date.toISOString()
}
