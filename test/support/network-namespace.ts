import { spawnSync } from 'node:child_process'

export type NetworkNamespace = Readonly<{
  /** The two addresses of the link that can be made bad: ours, and the one inside. */
  link: Readonly<{ outside: string; inside: string }>
  /** The inside's address on a second link that stays good, for the test's own questions. */
  control: string
  /** What to put in front of a command so that it runs inside. */
  enter: readonly string[]
  /** Packets vanish in both directions without a word, or come through again. */
  linkUp(up: boolean): void
  /** Only where `noNetem()` is null. Half of the round trip in each direction, and loss in each. */
  netem(shape: Readonly<{ roundTripMs: number; lossPercent: number }>): void
  remove(): void
}>

const needs = 'real network namespaces need root, Linux and iproute2'

/** Why there are no network namespaces here, for `skip`; null when there are. */
export function noNamespaces(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return needs
  return whyNot(() => openNetworkNamespace('probe').remove(), needs)
}

/** Why `tc netem` cannot be used here, for `skip`; null when it can. */
export function noNetem(): string | null {
  const none = noNamespaces()
  if (none !== null) return none
  return whyNot(() => {
    const probe = openNetworkNamespace('netem')
    try {
      probe.netem({ roundTripMs: 0, lossPercent: 1 })
    } finally {
      probe.remove()
    }
  }, 'tc netem (sch_netem) is not in this kernel')
}

let count = 0

/**
 * A network namespace beside the test's own, joined to it by two pairs of virtual cables. Addresses are of 198.18.0.0/15,
 * which is kept for such tests (RFC 2544). When the namespace goes, its cables go with it.
 */
export function openNetworkNamespace(purpose: string): NetworkNamespace {
  count += 1
  const name = `posthorn-${purpose}-${process.pid}-${count}`
  // Two runs at the same time shall not meet: the process id chooses the network.
  const net = `198.${18 + (process.pid % 2)}.${(process.pid >> 1) % 256}`
  const base = (count % 32) * 8
  const device = (which: string) => `ph${which}${process.pid.toString(36)}${count.toString(36)}`
  const [link, control] = [device('l'), device('c')]
  const addresses = [base + 1, base + 2, base + 5, base + 6].map((host) => `${net}.${host}`) as [
    string,
    string,
    string,
    string,
  ]
  const cable = (outside: string, ourAddress: string, inside: string, itsAddress: string) => {
    run('ip', 'link', 'add', outside, 'type', 'veth', 'peer', 'name', inside, 'netns', name)
    run('ip', 'addr', 'add', `${ourAddress}/30`, 'dev', outside)
    run('ip', '-n', name, 'addr', 'add', `${itsAddress}/30`, 'dev', inside)
    run('ip', 'link', 'set', outside, 'up')
    run('ip', '-n', name, 'link', 'set', inside, 'up')
  }
  const remove = () => {
    spawnSync('ip', ['netns', 'del', name])
    // The kernel takes a namespace down at leisure; its cables shall be gone when this returns.
    for (const outside of [link, control]) spawnSync('ip', ['link', 'del', outside])
  }
  run('ip', 'netns', 'add', name)
  try {
    run('ip', '-n', name, 'link', 'set', 'lo', 'up')
    cable(link, addresses[0], 'bad', addresses[1])
    cable(control, addresses[2], 'good', addresses[3])
  } catch (error) {
    remove()
    throw error
  }
  return {
    link: { outside: addresses[0], inside: addresses[1] },
    control: addresses[3],
    enter: ['ip', 'netns', 'exec', name],
    linkUp(up) {
      run('ip', '-n', name, 'link', 'set', 'bad', up ? 'up' : 'down')
    },
    netem({ roundTripMs, lossPercent }) {
      const shape = ['netem', 'delay', `${roundTripMs / 2}ms`, 'loss', `${lossPercent}%`]
      run('tc', 'qdisc', 'replace', 'dev', link, 'root', ...shape)
      run('tc', '-n', name, 'qdisc', 'replace', 'dev', 'bad', 'root', ...shape)
    },
    remove,
  }
}

function run(command: string, ...args: string[]): void {
  const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr.trim()}`)
}

function whyNot(attempt: () => void, reason: string): string | null {
  try {
    attempt()
    return null
  } catch (error) {
    return `${reason} (${error instanceof Error ? error.message : String(error)})`
  }
}
