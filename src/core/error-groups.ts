/** How much of a folded error is kept: enough to know it by. */
export const foldedLengthMax = 200

const hostEndings =
  '[a-z]{2}|com|net|org|edu|gov|mil|int|info|biz|app|dev|cloud|shop|store|online|site|xyz|tech|example|test|invalid|' +
  'local|localdomain|internal|intranet|lan|home|corp|arpa|svc'

/**
 * An error with what differs from one occurrence to the next replaced, so that the same failure of ten thousand
 * deliveries is one group. Folding what is folded changes nothing.
 *
 * The order matters: what may contain something else goes first.
 */
const foldings: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"'`<>]+/gi, '<url>'],
  // Quoted text is data, whatever it says; a word with an apostrophe is not quoted.
  [/(?<!\w)(["'`])[^"'`\n]{1,500}?\1(?!\w)/g, '<text>'],
  [/\b(?:evt|dlv|ep|req|src|key|rpl)_[0-9a-z]{6,}/g, '<id>'],
  [/\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi, '<id>'],
  [/\[?\b(?:[0-9a-f]{1,4}:){2,7}[0-9a-f]{0,4}(?::[0-9a-f]{1,4}){0,6}\b\]?(?::\d{1,5}\b)?/gi, '<address>'],
  [/(?<![\w:])\[?::(?:[0-9a-f]{1,4}:){0,6}[0-9a-f]{1,4}\b\]?(?::\d{1,5}\b)?/gi, '<address>'],
  [/\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d{1,5}\b)?/g, '<address>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, '<time>'],
  [/\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?:\d{2,5}\b/gi, '<host>'],
  [/(?<=\b(?:ENOTFOUND|EAI_AGAIN) )[a-z0-9.-]+/gi, '<host>'],
  // Only with an ending that hosts have: `order.items.map` is code.
  [new RegExp(`\\b(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\\.)+(?:${hostEndings})\\b(?![.(])`, 'gi'), '<host>'],
  [/\b0x[0-9a-f]+\b/gi, '<id>'],
  // Letters and digits in one long word: a token, a hash, somebody else's id.
  [/\b(?=[\w-]*\d)(?=[\w-]*[a-z])[\w-]{12,}\b/gi, '<id>'],
  [/\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,}\b/gi, '<id>'],
  // A status is what went wrong, and not which time it did.
  [/(?<!\bHTTP )(?<!\d)\d+(?:[.,]\d+)*/g, '<n>'],
  [/\s+/g, ' '],
]

/** Each pass leaves less to fold; cutting may bring something new to light, which the next one folds. */
const passesMax = 8

/** What is beyond this is never looked at. */
const readLengthMax = foldedLengthMax * 5

export function foldError(text: string): string {
  let folded = text.slice(0, readLengthMax)
  for (let pass = 0; pass < passesMax; pass++) {
    const next = foldOnce(folded)
    if (next === folded) break
    folded = next
  }
  return folded
}

/**
 * Folds errors of the same shape once: a million that differ only in their numbers would take half a minute otherwise.
 * Remembers at most `shapesMax`.
 */
export function foldingOnce(shapesMax: number): (error: string) => string {
  const known = new Map<string, string>()
  return (error) => {
    const shape = shapeOf(error)
    const folded = known.get(shape) ?? foldError(error)
    if (known.size < shapesMax) known.set(shape, folded)
    return folded
  }
}

/**
 * Errors of one shape fold alike. Every digit becomes a 1, because no folding asks which digit it is, with two exceptions
 * that keep theirs: a status, and the 0 of `0x`. How many digits there are stays, because some foldings ask for that.
 */
function shapeOf(error: string): string {
  return error.slice(0, readLengthMax).replace(otherDigits, (digits) => digits.replace(/\d(?!x$)/gi, '1'))
}
const otherDigits = /(?<!\bHTTP )(?<!\d)\d+x?/gi

function foldOnce(text: string): string {
  let folded = text.trim()
  for (const [pattern, replacement] of foldings) folded = folded.replace(pattern, replacement)
  return folded.trim().slice(0, foldedLengthMax)
}
