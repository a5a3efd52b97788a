import { Unreachable } from '../server/client.ts'
import type { Row } from './output.ts'

// The server's answers are data from outside: they are looked at before they are used.

export function isRow(value: unknown): value is Row {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function rowOf(answer: unknown): Row {
  if (isRow(answer)) return answer
  throw new Unreachable('the server answered with something unexpected; is POSTHORN_URL a Posthorn of this version?')
}

export type AnswerPage = Readonly<{ items: readonly Row[]; next: string | null }>

/** A page of a list; a bare array is a list of one page. */
export function pageOf(answer: unknown): AnswerPage {
  if (Array.isArray(answer)) return { items: answer.filter(isRow), next: null }
  const { items, next } = rowOf(answer)
  return {
    items: Array.isArray(items) ? items.filter(isRow) : [],
    next: typeof next === 'string' ? next : null,
  }
}

export function rowsOf(value: unknown): readonly Row[] {
  return Array.isArray(value) ? value.filter(isRow) : []
}
