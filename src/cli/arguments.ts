import { InvalidArgumentError } from 'commander'
import { size } from '../config-values.ts'
import { parseDuration } from '../core/duration.ts'

// Parsers for options: each refuses with a sentence that says what is allowed.

export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`It is a whole number from ${least} to ${most}.`)
  }
}

/** In bytes: 1048576, 512KiB or 1MiB. */
export function byteSize(least: number, most: number): (text: string) => number {
  const read = size(least, most)
  return (text) => {
    const reading = read(text)
    if ('value' in reading) return reading.value
    throw new InvalidArgumentError(`It ${reading.problem}.`)
  }
}

export const portNumber = wholeNumber(0, 65_535)

export function durationMs(text: string): number {
  const ms = parseDuration(text)
  if (ms === null) throw new InvalidArgumentError('A duration reads like 250ms, 20s, 5m, 2h or 7d.')
  return ms
}

/** Checked here, sent as it was written. */
export function durationText(text: string): string {
  durationMs(text)
  return text
}

/** A duration back from now, or an instant; as RFC 3339. */
export function since(text: string): string {
  // A bare number could mean anything.
  const ms = /^\d+$/.test(text) ? Number.NaN : parseDuration(text)
  const at = ms === null ? Date.parse(text) : Date.now() - ms
  if (Number.isNaN(at))
    throw new InvalidArgumentError('It is a duration like 2h or an instant like 2026-01-31T12:00:00Z.')
  return new Date(at).toISOString()
}

/** `name=value`, repeatable. */
export function header(text: string, previous: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf('=')
  if (at < 1) throw new InvalidArgumentError('A header reads like x-team=a.')
  return { ...previous, [text.slice(0, at).trim()]: text.slice(at + 1) }
}

/** Comma-separated and repeatable. */
export function words(text: string, previous: readonly string[] = []): readonly string[] {
  return [
    ...previous,
    ...text
      .split(',')
      .map((word) => word.trim())
      .filter((word) => word !== ''),
  ]
}

/** The same, each of them one of these. */
export function choicesOf(
  choices: readonly string[],
): (text: string, previous?: readonly string[]) => readonly string[] {
  return (text, previous) => {
    const given = words(text, previous)
    if (given.length > 0 && given.every((word) => choices.includes(word))) return given
    throw new InvalidArgumentError(`Allowed choices are ${choices.join(', ')}.`)
  }
}

export function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidArgumentError(`It is not valid JSON: ${error instanceof Error ? error.message : error}.`)
  }
}

/** A word, or JSON when it looks like it. */
export function wordOrJson(text: string): unknown {
  return /^\s*[{["]/.test(text) ? json(text) : text.trim()
}
