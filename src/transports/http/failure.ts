import type { Report } from '../../core/outcome.ts'
import { BlockedAddress } from './connector.ts'

const messageLengthMax = 300
const causesMax = 5

/** Codes that people meet, in words. Addresses and ports stay out: the reader of an attempt may be a tenant. */
const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset before an answer came',
  EPIPE: 'the connection was closed while the request was being sent',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  ETIMEDOUT: 'no connection could be made in time',
  ENOTFOUND: 'the host name was not found',
  EAI_AGAIN: 'the host name could not be looked up for now',
  ETIMEOUT: 'the name server did not answer in time',
  ESERVFAIL: 'the name server could not answer',
  UND_ERR_SOCKET: 'the other side closed the connection before it answered',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the length of the answer is not the one that it names',
  UND_ERR_HEADERS_OVERFLOW: 'the headers of the answer are too large',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet',
  CERT_REVOKED: 'the certificate was revoked',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate chain ends in a self-signed certificate that is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate could not be verified; an intermediate certificate may be missing',
  UNABLE_TO_GET_ISSUER_CERT: 'the issuer of the certificate is not known',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the issuer of the certificate is not known',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host name',
  ERR_SSL_WRONG_VERSION_NUMBER: 'the other side does not speak TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'the other side does not speak TLS',
}

/** What a failed connection or request is for the record. */
export function reportFailure(error: unknown): Report {
  if (error instanceof BlockedAddress) return { kind: 'blocked', message: oneLine(error.message) }
  const code = codeOf(error)
  return { kind: 'unreachable', code, message: words[code] ?? wordsOf(error, code) }
}

export function codeOf(error: unknown): string {
  let current: unknown = error
  for (let depth = 0; depth < causesMax && current instanceof Error; depth++) {
    if ('code' in current && typeof current.code === 'string' && current.code !== '') return current.code
    // undici 8 loses the code of its parser's errors.
    if (current.name === 'HTTPParserError') return 'HPE_INVALID'
    current = current instanceof AggregateError ? current.errors[0] : current.cause
  }
  return 'UNKNOWN'
}

function wordsOf(error: unknown, code: string): string {
  if (code.startsWith('HPE_')) return 'the answer is not HTTP/1.1'
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return 'the TLS handshake failed'
  return oneLine(error instanceof Error ? error.message : String(error))
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, messageLengthMax).toWellFormed()
}
