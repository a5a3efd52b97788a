export const eventTypeLengthMax = 256

const segment = /^[A-Za-z0-9_:/-]+$/
const allowed = 'letters, digits and _ : / - in segments separated by single dots'

/** Why this cannot be the type of an event, in words for its sender; null when it can. */
export function eventTypeProblem(type: string): string | null {
  return lengthProblem(type) ?? (type.split('.').every((part) => segment.test(part)) ? null : `must be ${allowed}`)
}

/** Why this cannot be one of an endpoint's `types`; null when it can. */
export function typePatternProblem(pattern: string): string | null {
  const isPattern = pattern.split('.').every((part) => part === '*' || segment.test(part))
  return lengthProblem(pattern) ?? (isPattern ? null : `must be ${allowed}; * stands for a whole segment`)
}

/**
 * Says which types an endpoint wants. A `*` stands for one segment, as the last one for all that remain (at least one),
 * so `*` alone is everything. Compiled once: this runs for every event and endpoint.
 */
export function typeMatcher(patterns: readonly string[]): (type: string) => boolean {
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
