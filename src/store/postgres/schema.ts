/** Where Posthorn's tables are. */
export type PostgresPlace = Readonly<{ url: string; schema: string }>

/** What people are shown: without the password. */
export function nameOf({ url, schema }: PostgresPlace): string {
  const shown = new URL(url)
  shown.password = ''
  shown.search = ''
  return `${shown.href} (schema ${schema})`
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
