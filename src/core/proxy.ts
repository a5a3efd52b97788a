/** The variables of an environment, as far as they are about proxies. */
export type ProxyVariables = Readonly<Record<string, string | undefined>>

/**
 * The proxy for this address (ws, wss, http or https), picked as other programs do: HTTPS_PROXY for what is encrypted,
 * HTTP_PROXY for what is not, ALL_PROXY for both, and none for hosts that NO_PROXY names or for this machine itself. The
 * names in lower case win.
 * null: there is none.
 */
export function proxyFor(address: string, variables: ProxyVariables): string | null {
  const url = URL.parse(address)
  if (url === null) return null
  const secure = url.protocol === 'https:' || url.protocol === 'wss:'
  const proxy = variable(variables, secure ? 'HTTPS_PROXY' : 'HTTP_PROXY') ?? variable(variables, 'ALL_PROXY')
  if (proxy === undefined) return null
  const port = url.port === '' ? (secure ? '443' : '80') : url.port
  if (isExempt(url.hostname, port, variable(variables, 'NO_PROXY') ?? '')) return null
  return proxy.includes('://') ? proxy : `http://${proxy}`
}

function variable(variables: ProxyVariables, name: string): string | undefined {
  return variables[name.toLowerCase()] || variables[name] || undefined
}

function isExempt(hostname: string, port: string, list: string): boolean {
  const host = bare(hostname)
  if (isThisMachine(host)) return true
  return list.split(/[\s,]+/).some((text) => {
    if (text === '*') return true
    // An address with colons has a port only where brackets tell them apart.
    const [, name = '', onlyPort] = /^([^:]*:[^:]*:[^[\]]*$|\[[^\]]+\]|[^:]+)(?::(\d+))?$/.exec(text) ?? []
    if (name === '' || (onlyPort !== undefined && onlyPort !== port)) return false
    const domain = bare(name).replace(/^\*?\./, '')
    return host === domain || (!isAddress(host) && host.endsWith(`.${domain}`))
  })
}

/** A proxy would look for it on a machine of its own. */
function isThisMachine(host: string): boolean {
  return /^(?:.+\.)?localhost$|^127(?:\.\d+){3}$/.test(host) || host === '::1'
}

function bare(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
}

/** 0.0.1 is no domain that 127.0.0.1 belongs to. */
function isAddress(host: string): boolean {
  return host.includes(':') || /^[\d.]+$/.test(host)
}
