const wordLengthMax = 64

/** The known word that was probably meant, as a piece of a sentence; empty when none is near. */
export function didYouMean(word: string, known: readonly string[]): string {
  if (word.length > wordLengthMax) return ''
  const tolerated = word.length < 4 ? 1 : Math.max(2, Math.floor(word.length / 4))
  const near = known
    .map((candidate) => ({ candidate, distance: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter((entry) => entry.distance <= tolerated && entry.distance < entry.candidate.length)
    .sort((a, b) => a.distance - b.distance)[0]
  return near === undefined ? '' : `; did you mean ${near.candidate}?`
}

/** How many letters to add, drop or change (Levenshtein). */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const change = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1)
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, change))
    }
    row = next
  }
  return row[to.length] ?? 0
}
