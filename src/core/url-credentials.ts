const credentials = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#\s]*@/i

/** A URL as it may be shown: `http://user:password@host` as `http://•••@host`. Other text stays as it is. */
export function withoutCredentials(text: string): string {
  return text.replace(credentials, '$1•••@')
}
