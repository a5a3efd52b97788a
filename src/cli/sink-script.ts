/** What the sink does with one request. */
export type Step =
  | Readonly<{ kind: 'answer'; status: number; retryAfterS: number | null }>
  /** Breaks the connection off. */
  | Readonly<{ kind: 'reset' }>
  /** Never answers. */
  | Readonly<{ kind: 'hang' }>

export type Turn = Readonly<{ step: Step; times: number }>
export type Script = readonly Turn[]

export const scriptRules = [
  'A script is a list like 503x3,200 with these parts; the last one repeats for ever:',
  '  200                 answer with this status (200 to 599)',
  '  503+retry-after=5   the same, with a Retry-After header in seconds',
  '  reset               break the connection off',
  '  hang                never answer',
  '  503x3               any of them, three times',
].join('\n')

const timesMax = 1_000_000
const part =
  /^(?:(?<status>[2-5]\d\d)(?:\+retry-after=(?<retryAfter>\d{1,9}))?|(?<word>reset|hang))(?:\s*x\s*(?<times>\d{1,7}))?$/

export type ReadScript = Readonly<{ script: Script }> | Readonly<{ problem: string }>

export function readScript(text: string): ReadScript {
  const turns: Turn[] = []
  for (const word of text.split(',').map((piece) => piece.trim())) {
    const turn = readTurn(word)
    if (turn === null) return { problem: `${JSON.stringify(word)} is not part of a script.\n${scriptRules}` }
    turns.push(turn)
  }
  return { script: turns }
}

function readTurn(word: string): Turn | null {
  const groups = part.exec(word)?.groups
  if (groups === undefined) return null
  const times = groups.times === undefined ? 1 : Number(groups.times)
  if (times < 1 || times > timesMax) return null
  if (groups.word === 'reset' || groups.word === 'hang') return { step: { kind: groups.word }, times }
  const retryAfterS = groups.retryAfter === undefined ? null : Number(groups.retryAfter)
  return { step: { kind: 'answer', status: Number(groups.status), retryAfterS }, times }
}

/** The step for the request with this number, counted from 0. */
export function stepAt(script: Script, index: number): Step {
  let passed = 0
  for (const { step, times } of script) {
    passed += times
    if (index < passed) return step
  }
  return script.at(-1)?.step ?? { kind: 'answer', status: 200, retryAfterS: null }
}

export function describeStep(step: Step): string {
  switch (step.kind) {
    case 'answer':
      return `${step.status}${step.retryAfterS === null ? '' : `+retry-after=${step.retryAfterS}`}`
    case 'reset':
    case 'hang':
      return step.kind
  }
}
