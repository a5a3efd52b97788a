/**
 * The port by which processes that share a database send each other short texts. A text may get lost, and none is kept:
 * a process that is away misses it.
 */
export interface Bus {
  /** Bytes that a text may have in UTF-8. */
  readonly textBytesMax: number

  /**
   * Sends the texts, of which no two are equal, to all processes, this one included. They arrive in their order. Answers
   * whether they were handed over; after `false` some of them may arrive. Never rejects.
   */
  publish(texts: readonly string[]): Promise<boolean>

  /** Calls back with every text that arrives from now on. There is one listener. */
  onText(listener: (text: string) => void): void

  /** May be called twice. */
  close(): Promise<void>
}
