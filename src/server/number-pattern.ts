const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const

/** A regular expression for the durations of whole units from `minMs` to `maxMs`, for the OpenAPI document. */
export function durationPattern(minMs: number, maxMs: number): string {
  const forms = Object.entries(unitsMs).flatMap(([unit, unitMs]) => {
    const [min, max] = [Math.ceil(minMs / unitMs), Math.floor(maxMs / unitMs)]
    return min > max ? [] : [`(${wholeNumberPattern(min, max)})${unit}`]
  })
  return `^(${forms.join('|')})$`
}

/** A regular expression, without anchors, for the whole numbers from `min` to `max`, without leading zeros. */
export function wholeNumberPattern(min: number, max: number): string {
  const runs: string[] = []
  for (let first = min; first <= max; ) {
    const last = lastOfRun(first, max)
    runs.push(runPattern(String(first), String(last)))
    first = last + 1
  }
  return runs.join('|')
}

/** The longest run of numbers from `first` on that differ in one digit, and in any way in those after it. */
function lastOfRun(first: number, max: number): number {
  let last = first
  for (let unit = 1; first % unit === 0; unit *= 10) {
    const endOfTen = first - (first % (unit * 10)) + unit * 10 - 1
    const end = Math.min(endOfTen, first + Math.floor((max - first + 1) / unit) * unit - 1)
    if (String(end).length !== String(first).length || end <= last) break
    last = end
    if (end < endOfTen) break
  }
  return last
}

function runPattern(first: string, last: string): string {
  const digits = [...first].map((digit, at) => (digit === last[at] ? digit : `[${digit}-${last[at]}]`))
  return digits.join('').replace(/(?:\[0-9\]){2,}/g, (anything) => `[0-9]{${anything.length / 5}}`)
}
