/** What may wait for a reader that has stopped reading. What comes on top of it is dropped, and counted. */
export const unreadBytesMax = 1024 * 1024

/**
 * Writes to a terminal block the whole process while the terminal does not read (Ctrl-S, a frozen ssh). From now on they
 * wait in memory instead, as those to pipes and sockets do.
 */
export function neverBlock(stream: NodeJS.WriteStream): void {
  if (!stream.isTTY) return
  const { _handle: handle } = stream as { _handle?: { setBlocking?: (blocking: boolean) => number } }
  handle?.setBlocking?.(false)
}
