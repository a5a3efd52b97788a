/** Controls (C0, DEL, C1), line separators, and marks that turn the order of text around. */
const unprintable = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu
const escapeChar = '\u001b'
const colours = new RegExp(`(${escapeChar}\\[[\\d;]*m)`)

/** Shows what a terminal would obey instead: `\n`, `\t`, `\u001b`. */
export function printable(text: string): string {
  return text.replace(unprintable, (char) => {
    if (char === '\n') return '\\n'
    if (char === '\t') return '\\t'
    return escapeOf(char)
  })
}

/**
 * The same for whole lines of ours, which keep their line ends and colours. JSON stays the same JSON: what is escaped
 * can only be inside its texts.
 */
export function harmless(text: string): string {
  const parts = text.split(colours)
  return parts.map((part, index) => (index % 2 === 1 ? part : part.replace(unprintable, kept))).join('')
}

function kept(char: string): string {
  return char === '\n' || char === '\t' ? char : escapeOf(char)
}

function escapeOf(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`
}
