/**
 * Calls back for each item when its signal aborts. In the server every attempt has a signal of its own, but all deliveries
 * of a hub share one (`hub/deliveries.ts`). An EventTarget with many listeners is slow to add and remove one, so each
 * signal gets one listener and a set.
 */
export type Interrupts<T> = Readonly<{
  add(signal: AbortSignal, item: T): void
  remove(signal: AbortSignal, item: T): void
}>

export function openInterrupts<T>(interrupt: (item: T) => void): Interrupts<T> {
  const items = new WeakMap<AbortSignal, Set<T>>()
  return {
    add(signal, item) {
      const known = items.get(signal)
      if (known !== undefined) {
        known.add(item)
        return
      }
      const set = new Set([item])
      items.set(signal, set)
      const onAbort = (): void => {
        for (const each of set) interrupt(each)
      }
      signal.addEventListener('abort', onAbort, { once: true })
    },
    remove(signal, item) {
      items.get(signal)?.delete(item)
    },
  }
}
