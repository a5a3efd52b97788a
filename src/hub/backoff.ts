export type BackoffSettings = Readonly<{ backoffMsMin: number; backoffMsMax: number }>

/** How long a hub waits before it comes back, after so many links in a row that were not good; ±50 %, by `random` in [0, 1). */
export function backoffMs(failures: number, { backoffMsMin, backoffMsMax }: BackoffSettings, random: number): number {
  const base = Math.min(backoffMsMax, backoffMsMin * 2 ** Math.min(failures, 30))
  return Math.round(base * (0.5 + random))
}
