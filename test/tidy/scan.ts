// A reader of TypeScript that is good enough for style rules: it knows comments, strings, templates, regular
// expressions and brackets, and nothing of types. Positions are kept, so that a finding can name its line.

export type Span = Readonly<{ firstLine: number; lastLine: number; header: string }>

type Keep = 'code' | 'code and strings'

/** The text with comments (and, unless kept, the contents of strings and regular expressions) turned into spaces. */
export function mask(text: string, keep: Keep = 'code'): string {
  const out = text.split('')
  // For each template that is open: how many braces are open inside its current `${ }`.
  const templates: number[] = []
  let i = 0
  while (i < text.length) {
    const end = endOfToken(text, i, out, templates)
    const kind = tokenKind(text, i, out, templates)
    if (kind === 'comment' || (kind === 'literal' && keep === 'code')) blank(out, i, end, kind === 'literal')
    if (text[i] === '{' && kind === 'code' && templates.length > 0) templates.push((templates.pop() ?? 0) + 1)
    if (text[i] === '}' && kind === 'code' && templates.length > 0) templates.push((templates.pop() ?? 0) - 1)
    if (kind === 'literal' && text[i] === '`') templateOpened(text, end, templates)
    if (kind === 'literal' && text[i] === '}') templateContinued(text, end, templates)
    i = end
  }
  return out.join('')
}

type Kind = 'comment' | 'literal' | 'code'

function tokenKind(text: string, at: number, before: readonly string[], templates: readonly number[]): Kind {
  const char = text[at]
  const pair = text.slice(at, at + 2)
  if (pair === '//' || pair === '/*') return 'comment'
  if (at === 0 && pair === '#!') return 'comment'
  if (char === "'" || char === '"' || char === '`') return 'literal'
  if (char === '}' && templates.at(-1) === 0) return 'literal'
  if (char === '/' && startsRegex(before, at)) return 'literal'
  return 'code'
}

function endOfToken(text: string, at: number, before: readonly string[], templates: readonly number[]): number {
  const kind = tokenKind(text, at, before, templates)
  if (kind === 'code') return at + 1
  const char = text[at]
  if (kind === 'comment' && text[at + 1] === '*') return after(text, '*/', at + 2)
  if (kind === 'comment') return endOfLine(text, at)
  if (char === '`' || char === '}') return endOfTemplatePart(text, at + 1)
  if (char === '/') return endOfRegex(text, at + 1)
  return endOfString(text, at)
}

function endOfString(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1
    else if (text[i] === text[at] || text[i] === '\n') return i + 1
  }
  return text.length
}

/** Up to and including the closing backtick, or the `${` that lets code in. */
function endOfTemplatePart(text: string, from: number): number {
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1
    else if (text[i] === '`') return i + 1
    else if (text[i] === '$' && text[i + 1] === '{') return i + 2
  }
  return text.length
}

function endOfRegex(text: string, from: number): number {
  let inClass = false
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === '\\') i += 1
    else if (text[i] === '[') inClass = true
    else if (text[i] === ']') inClass = false
    else if (text[i] === '\n' || (text[i] === '/' && !inClass)) return i + 1
  }
  return text.length
}

/** A slash divides after a value and opens a regular expression everywhere else. */
function startsRegex(before: readonly string[], at: number): boolean {
  let i = at - 1
  while (i >= 0 && /\s/.test(before[i] ?? '')) i -= 1
  if (i < 0) return true
  const previous = before[i] ?? ''
  if (!/[\w$)\]}'"`]/.test(previous)) return true
  const word = /(?:^|[^\w$.])([a-z]+)$/.exec(before.slice(Math.max(0, i - 12), i + 1).join(''))?.[1]
  return word !== undefined && ['return', 'typeof', 'case', 'in', 'of', 'await', 'yield', 'else', 'do'].includes(word)
}

function templateOpened(text: string, end: number, templates: number[]): void {
  if (text.slice(end - 2, end) === '${') templates.push(0)
}

function templateContinued(text: string, end: number, templates: number[]): void {
  if (text.slice(end - 2, end) !== '${') templates.pop()
}

/** Line ends stay, and so do the delimiters of a literal: `'abc'` becomes `'   '`. */
function blank(out: string[], from: number, to: number, keepEnds: boolean): void {
  for (let i = keepEnds ? from + 1 : from; i < (keepEnds ? to - 1 : to); i += 1) {
    if (out[i] !== '\n') out[i] = ' '
  }
  // The `$` of `${` is not code, and the braces of `${ }` would pair up as if they were blocks.
  if (keepEnds && out[to - 1] === '{') out[to - 1] = ' '
  if (keepEnds && out[from] === '}') out[from] = ' '
}

function after(text: string, mark: string, from: number): number {
  const at = text.indexOf(mark, from)
  return at < 0 ? text.length : at + mark.length
}

function endOfLine(text: string, from: number): number {
  const at = text.indexOf('\n', from)
  return at < 0 ? text.length : at
}

export function lineAt(text: string, position: number): number {
  return text.slice(0, position).split('\n').length
}

/** What a file asks for: static and dynamic imports, re-exports, and files it loads by URL. */
export function importsOf(text: string): readonly Readonly<{ target: string; line: number }>[] {
  const code = mask(text, 'code and strings')
  const shapes = [
    /\b(?:import|export)\b[^'"`;=()]*?\bfrom\s*['"]([^'"]+)['"]/g,
    /\bimport\s*['"]([^'"]+)['"]/g,
    /\bimport\s*\(\s*['"`]([^'"`]+)['"`]/g,
    /\bnew URL\(\s*['"](\.[^'"]+\.ts)['"]\s*,\s*import\.meta\.url/g,
  ]
  const found = shapes.flatMap((shape) => [...code.matchAll(shape)])
  return found.map((match) => ({ target: match[1] ?? '', line: lineAt(text, match.index) }))
}

/** Every function with a body in brackets: declarations, methods, accessors and arrows. */
export function functionsOf(text: string): readonly Span[] {
  const code = mask(text)
  const spans: Span[] = []
  for (const { index } of code.matchAll(/=>\s*[{(]/g)) addSpan(index, code.slice(index).search(/[{(]/) + index)
  for (const { index } of code.matchAll(/\(/g)) {
    if (/\b(?:if|for|while|switch|catch|with|await)\s*$/.test(code.slice(Math.max(0, index - 16), index))) continue
    const body = bodyAfter(code, closing(code, index) + 1)
    if (body !== undefined) addSpan(index, body)
  }
  return spans

  function addSpan(from: number, body: number): void {
    const firstLine = lineAt(code, from)
    const header = text.split('\n')[firstLine - 1]?.trim() ?? ''
    spans.push({ firstLine, lastLine: lineAt(code, closing(code, body)), header })
  }
}

/** Where the body of a function opens whose parameter list ends at `from`; undefined when it has none. */
function bodyAfter(code: string, from: number): number | undefined {
  const gap = /^\s*/.exec(code.slice(from))?.[0].length ?? 0
  const next = code[from + gap]
  if (next === '{') return from + gap
  if (next !== ':') return undefined
  let previous = ':'
  for (let i = from + gap + 1; i < code.length; i += 1) {
    const char = code[i] ?? ''
    if (char === '\n' || char === ';') return undefined
    if (char === '{' && !/[:|&<,(=>]/.test(previous)) return i
    if (char === '{' && previous === '>' && code[i - 2] !== '=' && code[i - 3] !== '=') return i
    if (/[{([]/.test(char)) i = closing(code, i)
    if (!/\s/.test(char)) previous = code[i] ?? ''
  }
  return undefined
}

/** The position of the bracket that closes the one at `open`, or the end of the text. */
function closing(code: string, open: number): number {
  let depth = 0
  for (let i = open; i < code.length; i += 1) {
    if (/[{([]/.test(code[i] ?? '')) depth += 1
    if (/[})\]]/.test(code[i] ?? '')) depth -= 1
    if (depth === 0) return i
  }
  return code.length
}
