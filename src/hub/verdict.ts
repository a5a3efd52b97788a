import { closeCodes } from '../transports/relay/protocol.ts'
import type { EdgeLinkEnd } from './edge-link.ts'
import type { HubEnd } from './hub-events.ts'

/** What follows from the end of a link: the hub comes back, or it stays away and says why. */
export type Verdict = Readonly<{ comesBack: true; message: string }> | Readonly<{ comesBack: false; end: StayingAway }>

type StayingAway = Exclude<HubEnd, { kind: 'stopped' }>

const unauthorized = 401
const keyAdvice =
  'put the new key in place, or make another with `posthorn relays rotate-key <name>` (`posthorn relays create` if the relay is gone)'

export function verdictOf({ socket, message }: EdgeLinkEnd, edge: string): Verdict {
  const said = message === null ? '' : ` (${message})`
  switch (socket.kind) {
    case 'refused':
      return socket.statusCode === unauthorized
        ? stayAway('refused', `The edge ${edge} does not know this key, or not any longer: ${keyAdvice}.`)
        : comeBack(`The edge ${edge} answered ${socket.statusCode}${adviceFor(socket.statusCode)}.`)
    case 'unreachable':
      return comeBack(`The edge ${edge} cannot be reached: ${socket.message} (${socket.code}).`)
    case 'silent':
      return comeBack(`Nothing was heard from the edge ${edge} for too long.`)
    case 'closed':
      return afterClose(socket.code, said || (socket.reason === '' ? '' : ` (${socket.reason})`), edge)
  }
}

function afterClose(code: number, said: string, edge: string): Verdict {
  switch (code) {
    case closeCodes.revoked:
      return stayAway('revoked', `The key of this hub was revoked or replaced by a new one: ${keyAdvice}.`)
    case closeCodes.replaced:
      return stayAway(
        'replaced',
        `Another hub came with the same key, and the newest wins${said}: stop one of the two, or give each a key of its own.`,
      )
    case closeCodes.version:
      return stayAway(
        'version',
        `The edge ${edge} and this hub have no version in common${said}: update the older of them.`,
      )
    default:
      return comeBack(`The link to the edge ${edge} was closed: ${code}${said}.`)
  }
}

function adviceFor(statusCode: number): string {
  if (statusCode === 404)
    return ': there is no relay there; check the address and its path, and that the edge is up to date'
  return statusCode >= 300 && statusCode < 400 ? ', which leads elsewhere: name the address itself' : ''
}

function comeBack(message: string): Verdict {
  return { comesBack: true, message }
}

function stayAway(kind: StayingAway['kind'], message: string): Verdict {
  return { comesBack: false, end: { kind, message } }
}
