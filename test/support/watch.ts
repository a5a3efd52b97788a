/** Who waits for something to be true, and is asked again whenever it may have become so. */
export type Watch = Readonly<{ look(): void; until(holds: () => boolean): Promise<void> }>

export function openWatch(): Watch {
  const waiting = new Set<() => void>()
  return {
    look() {
      for (const look of waiting) look()
    },
    until(holds) {
      return new Promise((resolve) => {
        const look = () => {
          if (!holds()) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
      })
    },
  }
}
