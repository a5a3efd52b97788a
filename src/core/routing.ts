export const eventTypeLengthMax = 256

const segment = /^[A-Za-z0-9_:/-]+$/
const typeWords = /^[A-Za-z0-9_:/-]+(?:\.[A-Za-z0-9_:/-]+)*$/
const allowed = 'letters, digits and _ : / - in segments separated by single dots'

/** Why this cannot be the type of an event, in words for its sender; null when it can. */
export function eventTypeProblem(type: string): string | null {
  return lengthProblem(type) ?? (typeWords.test(type) ? null : `must be ${allowed}`)
}

/** What Posthorn tells of itself has types that begin so; nobody else sends them. */
const ownTypePrefix = 'posthorn.'

/** Whether an event of this type is one of Posthorn's own notifications. */
export function isOwnType(type: string): boolean {
  return type.startsWith(ownTypePrefix)
}

/** Why nobody may send an event of this type; null when they may. */
export function sentTypeProblem(type: string): string | null {
  const problem = eventTypeProblem(type)
  if (problem !== null || !isOwnType(type)) return problem
  return `must not begin with ${ownTypePrefix}: such events are Posthorn's own notifications`
}

/** Why this cannot be one of an endpoint's `types`; null when it can. */
export function typePatternProblem(pattern: string): string | null {
  const isPattern = pattern.split('.').every((part) => part === '*' || segment.test(part))
  return lengthProblem(pattern) ?? (isPattern ? null : `must be ${allowed}; * stands for a whole segment`)
}

/**
 * Says which types an endpoint wants. A `*` stands for one segment, as the last one for all that remain (at least one),
 * so `*` alone is everything. Posthorn's own notifications are wanted only by a pattern that begins as they do: who
 * wants all of their own events has not asked for ours. Compiled once: this runs for every event and endpoint.
 */
export function typeMatcher(patterns: readonly string[]): (type: string) => boolean {
  const ownPatterns = patterns.filter(isOwnType)
  const wants = matcherOf(patterns)
  if (ownPatterns.length === 0) return (type) => !isOwnType(type) && wants(type)
  const wantsOwn = matcherOf(ownPatterns)
  return (type) => (isOwnType(type) ? wantsOwn(type) : wants(type))
}

function matcherOf(patterns: readonly string[]): (type: string) => boolean {
  if (patterns.includes('*')) return () => true
  const words = new Set(patterns.filter((pattern) => !hasWildcard(pattern)))
  const wildcards = patterns.filter(hasWildcard).map(expressionOf)
  if (wildcards.length === 0) return (type) => words.has(type)
  const expression = new RegExp(`^(?:${wildcards.join('|')})$`)
  return (type) => words.has(type) || expression.test(type)
}

function lengthProblem(text: string): string | null {
  if (text.length >= 1 && text.length <= eventTypeLengthMax) return null
  return `must have 1 to ${eventTypeLengthMax} characters`
}

function hasWildcard(pattern: string): boolean {
  return pattern.split('.').includes('*')
}

function expressionOf(pattern: string): string {
  const parts = pattern.split('.')
  return parts
    .map((part, index) => {
      if (part !== '*') return RegExp.escape(part)
      return index === parts.length - 1 ? '.+' : '[^.]+'
    })
    .join('\\.')
}
