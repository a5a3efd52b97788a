/** A value as SQLite gives and takes it. */
export type Cell = string | number | null | Uint8Array

/** As many cells as there are names: the compiler tells when one is forgotten. */
export type CellsOf<Names extends readonly string[]> = { readonly [Place in keyof Names]: Cell }

/** As many parameters as there are names. */
export function questionMarks(names: readonly string[]): string {
  return names.map(() => '?').join(', ')
}

export function toHeaders(text: string | null): Readonly<Record<string, string>> {
  return text === null ? {} : JSON.parse(text)
}

export function fromHeaders(headers: Readonly<Record<string, string>>): string | null {
  for (const _name in headers) return JSON.stringify(headers)
  return null
}
