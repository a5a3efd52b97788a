/** Headers that an endpoint or an event may bring along: what is allowed, in one place for the API and the wire. */

const nameLengthMax = 128
const valueLengthMax = 4_096

const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** Tab, visible ASCII, space and latin-1: what goes into a header as it is. No CR, LF, NUL or other control characters. */
const latinText = /^[\t\x20-\x7e\x80-\xff]*$/

/** Headers that frame the request or speak to the next hop: whoever sets them decides where the request ends. */
const reservedNames: ReadonlySet<string> = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'expect',
  'upgrade',
  'te',
  'trailer',
  'keep-alive',
])
/** `webhook-` and `posthorn-` are ours alone: a receiver trusts them. */
const reservedPrefixes = ['proxy-', 'webhook-', 'posthorn-']

/** Why this header cannot be sent, in a sentence; null when it can. */
export function headerProblem(name: string, value: string): string | null {
  if (name === '') return 'a header needs a name'
  if (name.length > nameLengthMax) return `a header name has at most ${nameLengthMax} characters`
  if (!token.test(name)) return `${JSON.stringify(name)} is not a header name: use letters, digits and hyphens`
  if (isReserved(name.toLowerCase())) return `the header ${name} is set by Posthorn and cannot be chosen`
  if (value.length > valueLengthMax) return `the value of the header ${name} has more than ${valueLengthMax} characters`
  if (!isHeaderText(value)) return `the value of the header ${name} has characters that HTTP does not allow`
  return null
}

/** Whether the text can be a header's value as it is. */
export function isHeaderText(value: string): boolean {
  return latinText.test(value)
}

function isReserved(name: string): boolean {
  return reservedNames.has(name) || reservedPrefixes.some((prefix) => name.startsWith(prefix))
}
