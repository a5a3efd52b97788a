/** The places of named cells in a row: one list of names says what is read, written and found where. */
export function placesOf<const Names extends readonly string[]>(names: Names): Readonly<Record<Names[number], number>> {
  return Object.fromEntries(names.map((name, place) => [name, place])) as Record<Names[number], number>
}
