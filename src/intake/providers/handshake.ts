import { type Handshake, malformed, type Refusal } from './verification.ts'

/** It comes back as it came, so it must not be able to mean anything to whoever reads it. */
const challenge = /^[\x21-\x7e]{1,256}$/
const challengeNames = ['hub.challenge', 'challenge'] as const

export const emptyAnswer: Handshake = { kind: 'handshake', status: 200, contentType: 'text/plain', body: '' }

export function challengeAnswer(text: string): Handshake | Refusal {
  if (!challenge.test(text)) return malformed('The challenge is not 1 to 256 visible ASCII characters.')
  return { ...emptyAnswer, body: text }
}

/** What a GET is told: providers ask whether somebody is there, some with a challenge in the query. */
export function answerToGet(query: string): Handshake | Refusal {
  const parameters = new URLSearchParams(query)
  const name = challengeNames.find((each) => parameters.has(each))
  return name === undefined ? emptyAnswer : challengeAnswer(parameters.get(name) ?? '')
}
