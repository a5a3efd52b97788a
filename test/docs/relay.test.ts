import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { commandShapes } from '../../src/cli/command-tree.ts'
import { hubFrom } from '../../src/cli/hub-flags.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { openTerminal } from '../../src/cli/terminal.ts'
import { loadConfig } from '../../src/config.ts'
import { folderFor } from '../cli/server.ts'

const docs = path.join(import.meta.dirname, '../../docs')
const page = readFileSync(path.join(docs, 'relay.md'), 'utf8')
const edgeUnit = readFileSync(path.join(docs, 'operating/posthorn-edge.service'), 'utf8')
const hubUnit = readFileSync(path.join(docs, 'operating/posthorn-hub.service'), 'utf8')
const shapes = commandShapes(buildProgram(openTerminal({})))

describe('docs/relay.md', () => {
  const commands = commandsIn(page)

  test('shows every step as a command', () => {
    const steps = ['sources create', 'relays create', 'endpoints create', 'relay', 'relays list', 'listen']
    assert.deepEqual(
      steps.filter((step) => !commands.some((command) => `${command} `.startsWith(`posthorn ${step} `))),
      [],
    )
  })

  for (const command of commands) {
    test(`uses what there is: ${command}`, () => assert.deepEqual(unknownIn(command), []))
  }

  test('raises the limits of the edge to what a server understands, and nginx lets as much through', () => {
    const env = Object.fromEntries(
      [...page.matchAll(/\b(POSTHORN_\w+_BYTES_MAX)=(\w+)/g)].map(([, name, text]) => [name, text]),
    )
    const { eventBytesMax } = loadConfig({ flags: {}, env })
    const throughNginx = Number(/client_max_body_size (\d+)m;/.exec(page)?.[1]) * 1024 * 1024
    assert.ok(eventBytesMax >= 25_000_000 && throughNginx >= eventBytesMax)
  })

  test('has a file for the hub that the hub understands', (t) => {
    const json = /hub\.json <<'EOF'\n([\s\S]*?)^EOF$/m.exec(page)?.[1] ?? ''
    const config = path.join(folderFor(t), 'hub.json')
    writeFileSync(config, json)
    const { edge, routes } = hubFrom({ config, key: `phr_${'k'.repeat(43)}` }, {})
    assert.deepEqual([edge, [...routes.keys()]], ['wss://edge.example', ['github']])
  })
})

describe('the units of systemd', () => {
  test('start commands that there are', () => {
    assert.deepEqual(
      [edgeUnit, hubUnit].flatMap((unit) => commandsIn(unit).flatMap(unknownIn)),
      [],
    )
    assert.deepEqual([commandsIn(edgeUnit).length, commandsIn(hubUnit).length], [1, 1])
  })

  test('set what a server understands', () => {
    const env = Object.fromEntries(
      [...edgeUnit.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name, text]) => [name, text]),
    )
    const { publicPort, publicHost } = loadConfig({ flags: {}, env })
    assert.deepEqual([publicPort, publicHost], [8080, '127.0.0.1'])
  })

  test('do not start a hub again that the edge has sent away', () => {
    assert.match(hubUnit, /^Restart=always$/m)
    assert.match(hubUnit, /^RestartPreventExitStatus=3$/m)
  })

  test('never give up a service that fails for a while', () => {
    for (const unit of [edgeUnit, hubUnit]) assert.match(unit, /^\[Unit\]\n[^[]*^StartLimitIntervalSec=0$/m)
  })
})

/** Every call of posthorn in a block of commands, a line or a unit; without what stands behind it. */
function commandsIn(text: string): readonly string[] {
  const blocks = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')
  const inline = [...text.matchAll(/`(posthorn [^`]*)`/g)].map((match) => match[1] ?? '')
  const units = [...text.matchAll(/^ExecStart=\S*\/(posthorn .*)$/gm)].map((match) => match[1] ?? '')
  const lines = blocks.flatMap((block) => block.split('\n')).filter((line) => line.startsWith('posthorn '))
  return [...lines, ...inline, ...units].map((line) => line.replace(/ {2,}#.*| [<|] .*/, ''))
}

/** The words of a call that are no command, and the options that this command does not have. */
function unknownIn(call: string): readonly string[] {
  const words = call
    .replace(/'[^']*'/g, "''")
    .split(' ')
    .slice(1)
  if (words[0] === '--version') return []
  const shape = shapes
    .filter(({ path: at, commands }) => commands.length === 0 && at.every((word, index) => words[index] === word))
    .toSorted((a, b) => b.path.length - a.path.length)[0]
  if (shape === undefined || shape.path.length === 0) return [call]
  const known = shape.options.flatMap(({ names }) => names)
  return words.filter((word) => /^--?[a-z]/.test(word) && !known.includes(word))
}
