import { cut, widthOf } from './table.ts'
import type { Terminal } from './terminal.ts'

/** What is being done, and how many there are of it; `total` null: nobody knows before the end. */
export type Work = Readonly<{ label: string; total: number | null }>

export type Progress = Readonly<{
  /** `note` stands at the end of the line, such as `3 failed`. */
  update: (done: number, note?: string) => void
  /** Takes the bar away; the result is the caller's to say. Safe to call twice. */
  end: () => void
}>

/** A bar need not be drawn more often than an eye follows. */
const redrawEveryMs = 50
/** In a pipe every line stays: a log wants few of them. */
const lineEveryMs = 5_000
const barWidth = { most: 30, least: 5 }
const gap = 2

/** A bar on a terminal, and now and then a line in a pipe; on stderr, as it is no data. */
export function openProgress(terminal: Terminal, work: Work, now: () => number = () => performance.now()): Progress {
  let shownAt = terminal.isLive ? Number.NEGATIVE_INFINITY : now()
  let hasEnded = false
  return {
    update: (done, note = '') => {
      const at = now()
      const isComplete = work.total !== null && done >= work.total
      const isSoon = at - shownAt < (terminal.isLive ? redrawEveryMs : lineEveryMs)
      if (hasEnded || (isSoon && !(isComplete && terminal.isLive))) return
      shownAt = at
      if (!terminal.isLive) return terminal.say(sentence(work, done, note))
      const { bar, text } = progressLine(work, done, note, terminal.messageColumns() ?? Number.POSITIVE_INFINITY)
      terminal.rewrite(bar === '' ? text : `${terminal.paintMessage('green', bar)}${text}`)
    },
    end: () => {
      if (terminal.isLive && !hasEnded) terminal.rewrite('')
      hasEnded = true
    },
  }
}

/** The line in at most `columns - 1`: a terminal wraps when its last column is written. First the bar shrinks, then the words. */
export function progressLine(
  work: Work,
  done: number,
  note: string,
  columns: number,
): Readonly<{ bar: string; text: string }> {
  const room = Math.max(0, columns - 1)
  const text = sentence(work, done, note)
  const width = Math.min(barWidth.most, room - widthOf(text) - gap)
  if (work.total === null || width < barWidth.least) return { bar: '', text: cut(text, room) }
  const share = work.total === 0 ? 1 : Math.min(1, done / work.total)
  const filled = Math.floor(share * width)
  return { bar: '█'.repeat(filled) + '░'.repeat(width - filled), text: `${' '.repeat(gap)}${text}` }
}

function sentence({ label, total }: Work, done: number, note: string): string {
  const count = done.toLocaleString('en')
  const rest = note === '' ? '' : `, ${note}`
  if (total === null) return `${label} ${count}${rest}`
  const percent = total === 0 ? 100 : Math.min(100, Math.floor((done / total) * 100))
  return `${label} ${count} of ${total.toLocaleString('en')} (${percent} %)${rest}`
}
