/** Standard Webhooks 1.0, symmetric signatures (v1). */

/** Base64 of the HMAC-SHA256 of `head` in UTF-8 followed by `body`. Comes in, because core has no cryptography. */
export type Hmac = (key: Uint8Array, head: string, body: Uint8Array) => string

const secretPrefix = 'whsec_'
const secretBytesMin = 24
const secretBytesMax = 64
const signaturePrefix = 'v1,'
/** Base64 of 32 bytes. */
const signatureLength = 44
const toleranceMsDefault = 5 * 60_000

/** The key in `whsec_` + base64, or null. Only canonical base64: receivers' libraries refuse the rest. */
export function parseSecret(text: string): Uint8Array | null {
  if (!text.startsWith(secretPrefix)) return null
  const encoded = text.slice(secretPrefix.length)
  const binary = decoded(encoded)
  if (binary === null || btoa(binary) !== encoded) return null
  if (binary.length < secretBytesMin || binary.length > secretBytesMax) return null
  return Uint8Array.from(binary, (char) => char.charCodeAt(0))
}

/** The value of `webhook-signature`: one signature per key, so that both secrets of a rotation are good. */
export function signatureHeader(
  hmac: Hmac,
  keys: readonly Uint8Array[],
  message: Readonly<{ id: string; timestampS: number; body: Uint8Array }>,
): string {
  const head = headOf(message.id, String(message.timestampS))
  return keys.map((key) => signaturePrefix + hmac(key, head, message.body)).join(' ')
}

/** The three headers as they came, and the exact bytes of the body. */
export type SignedMessage = Readonly<{ id: string; timestamp: string; signature: string; body: Uint8Array }>

/** Why the message is not to be trusted; null when it is. */
export function verifySignature(
  hmac: Hmac,
  keys: readonly Uint8Array[],
  message: SignedMessage,
  nowMs: number,
  toleranceMs: number = toleranceMsDefault,
): string | null {
  if (message.id === '') return 'the webhook-id header is missing'
  if (!/^\d{1,12}$/.test(message.timestamp)) return 'the webhook-timestamp header is not a number of seconds'
  const ageMs = nowMs - Number(message.timestamp) * 1_000
  // Written so that a clock that is no number refuses.
  if (!(ageMs <= toleranceMs)) return 'the webhook-timestamp is too old'
  if (!(ageMs >= -toleranceMs)) return 'the webhook-timestamp is in the future'

  const given = v1Signatures(message.signature)
  if (given.length === 0) return 'the webhook-signature header has no v1 signature'
  const head = headOf(message.id, message.timestamp)
  let isGood = false
  for (const key of keys) {
    const expected = hmac(key, head, message.body)
    for (const signature of given) isGood = isSame(signature, expected) || isGood
  }
  return isGood ? null : 'the webhook-signature does not match'
}

/** What can be a v1 signature in the value of `webhook-signature`, without the prefix. */
export function v1Signatures(header: string): readonly string[] {
  return header
    .split(' ')
    .filter((part) => part.startsWith(signaturePrefix) && part.length === signaturePrefix.length + signatureLength)
    .map((part) => part.slice(signaturePrefix.length))
}

function headOf(id: string, timestamp: string): string {
  return `${id}.${timestamp}.`
}

/** Takes as long for the first wrong character as for the last: time must not tell how much of a guess was right. */
function isSame(given: string, expected: string): boolean {
  if (given.length !== signatureLength || expected.length !== signatureLength) return false
  let difference = 0
  for (let i = 0; i < signatureLength; i++) difference |= given.charCodeAt(i) ^ expected.charCodeAt(i)
  return difference === 0
}

function decoded(base64: string): string | null {
  try {
    return atob(base64)
  } catch {
    return null
  }
}
