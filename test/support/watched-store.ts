import { PosthornError } from '../../src/core/errors.ts'
import type { Beat, MemberHint } from '../../src/store/cluster-store.ts'
import type { Store } from '../../src/store/store.ts'

type StoreCall = Exclude<keyof Store, 'health' | 'space'>

/** The real store, whose calls can be counted, refused and held up. */
export class WatchedStore {
  readonly store: Store
  pending = 0
  /** Told of every call before it is passed on. */
  onCall: (name: StoreCall, args: readonly unknown[]) => void = () => {}
  /** The store's answers pass through it. */
  onAnswer: (name: StoreCall, answer: unknown) => unknown = (_, answer) => answer
  readonly #hintListeners: ((hint: MemberHint) => void)[] = []
  readonly #counts = new Map<string, number>()
  readonly #refused = new Set<StoreCall>()
  readonly #gates = new Map<StoreCall, Promise<void>>()

  constructor(real: Store) {
    this.store = new Proxy(real, {
      get: (target, name: keyof Store) => {
        if (name === 'health') return () => target.health()
        if (name === 'space' || name === 'bus') return target[name]
        const call = target[name].bind(target) as (...args: unknown[]) => Promise<unknown>
        return (...args: unknown[]) => this.#run(name, call, args)
      },
    })
  }

  calls(name: StoreCall): number {
    return this.#counts.get(name) ?? 0
  }

  refuse(...names: StoreCall[]): void {
    for (const name of names) this.#refused.add(name)
  }

  mend(): void {
    this.#refused.clear()
  }

  /** What another member says. */
  hear(hint: Partial<MemberHint>): void {
    const nothing = { endpointIds: [], conditionsOf: [], registry: false, links: false, members: false }
    for (const listener of this.#hintListeners) listener({ ...nothing, ...hint })
  }

  /** Holds calls of this name back until the answer is called. */
  hold(name: StoreCall): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gates.set(name, promise)
    return () => {
      this.#gates.delete(name)
      resolve()
    }
  }

  async #run(name: StoreCall, call: (...args: unknown[]) => Promise<unknown>, args: unknown[]): Promise<unknown> {
    this.#counts.set(name, this.calls(name) + 1)
    this.onCall(name, args)
    if (name === 'onHint') this.#hintListeners.push(args[0] as (hint: MemberHint) => void)
    await this.#gates.get(name)
    this.pending += 1
    try {
      if (this.#refused.has(name)) throw new PosthornError('store_full', 'The disk is full (played by the test).')
      return this.onAnswer(name, await call(...args))
    } finally {
      this.pending -= 1
    }
  }
}

/** A beat as it would be answered among these members. */
export function withMembers(beat: Beat, members: readonly string[], working: readonly string[] = members): Beat {
  return { ...beat, members, working }
}
