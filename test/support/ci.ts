/** In continuous integration nothing is skipped because something is missing. */
export function isCi(): boolean {
  return process.env.CI !== undefined && process.env.CI !== ''
}
