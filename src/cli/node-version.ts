/** Kept in step with `engines` in package.json by a test. */
export const supportedNode = '>=24.16 <25 || >=26.1'

/** Why this Node cannot run Posthorn, in a sentence; null when it can. Runs on every Node there is: no imports here. */
export function nodeProblem(version: string): string | null {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isSupported = (major === 24 && minor >= 16) || (major === 26 && minor >= 1) || major > 26
  if (isSupported) return null
  const advice = 'From a checkout, `npm start` and `bin/posthorn` bring a fitting Node along.'
  return `Posthorn needs Node ${supportedNode}; this is Node ${version}. ${advice}`
}
