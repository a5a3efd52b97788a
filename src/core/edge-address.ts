import { relayPath } from './relay.ts'

/** Where a hub connects to. */
export type EdgeAddress = Readonly<{
  secure: boolean
  /** Without brackets. */
  host: string
  port: number
  /** As WebSocket has it: ws or wss, with the path of the relay. */
  url: string
}>

const schemes: Readonly<Record<string, boolean | undefined>> = {
  'ws:': false,
  'http:': false,
  'wss:': true,
  'https:': true,
}

/** People have the address of their edge as a page or as a socket, at its root or below a path: all of them mean the same. */
export function edgeAddress(text: string): EdgeAddress | Readonly<{ problem: string }> {
  const url = URL.parse(text)
  const secure = schemes[url?.protocol ?? '']
  if (url === null || secure === undefined)
    return { problem: 'must be the address of the edge, like wss://edge.example' }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    return { problem: 'must have nothing but host, port and path; the key has a setting of its own' }
  }
  const path = url.pathname.replace(/\/+$/, '')
  const full = path.endsWith(relayPath) ? path : path + relayPath
  return {
    secure,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    url: `${secure ? 'wss' : 'ws'}://${url.host}${full}`,
  }
}
