const unitsMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const
type Unit = keyof typeof unitsMs

/** Nothing here waits or is kept for longer than a leap year: what says so is a typing error. */
export const durationMsMax = 366 * unitsMs.d

/** Milliseconds, or null when the input is not a duration. `'5s' '250ms' '1.5h' '7d' '2w'`; no unit means milliseconds. */
export function parseDuration(input: string | number): number | null {
  const ms = typeof input === 'number' ? input : textToMs(input)
  // Written so that NaN fails too.
  if (!(ms >= 0 && ms <= durationMsMax)) return null
  return Math.abs(Math.round(ms))
}

/** The largest unit that is exact, up to days: people say `14d`, not `2w`. `parseDuration` reads it back. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s'
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms % unitsMs[unit] === 0) return `${ms / unitsMs[unit]}${unit}`
  }
  return `${ms}ms`
}

function textToMs(text: string): number {
  if (/^\d+$/.test(text)) return Number(text)
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/.exec(text)
  return match === null ? Number.NaN : Number(match[1]) * unitsMs[match[2] as Unit]
}
