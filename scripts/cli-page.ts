// Writes docs/cli.md from the program itself: node scripts/cli-page.ts > docs/cli.md
import { type CommandShape, commandShapes, type OptionShape } from '../src/cli/command-tree.ts'
import { configFlags } from '../src/cli/config-flags.ts'
import { examples } from '../src/cli/examples.ts'
import { buildProgram } from '../src/cli/program.ts'
import { openTerminal } from '../src/cli/terminal.ts'

const settingFlags = new Set(configFlags.map(([flag]) => flag))

const head = `# Command line

<!-- Written by scripts/cli-page.ts; its test says how to write it again. -->

From a clone it is \`bin/posthorn …\`, installed it is \`posthorn …\` or \`npx posthorn …\`. \`--help\` works everywhere.

- **Data goes to stdout, messages go to stderr.** \`-o table\` is for people and fits the terminal; \`-o json\` and
  \`-o jsonl\` are for programs, and nothing is cut in a pipe. \`NO_COLOR=1\` takes the colours away. On a narrow
  terminal long texts are cut and columns are left out, ids never are; \`--wide\` shows everything.
- **Ids can be shortened** to their beginning (at least 8 characters after the \`_\`) wherever that is one id alone.
- **Exit codes:** \`0\` it worked · \`1\` it failed, or the result is not what was asked for (a dead letter under
  \`send --wait\`, a test that was not delivered) · \`2\` wrong usage or configuration, and nothing was done · \`3\` the edge has sent this
  hub away for good (\`relay\`) · \`4\` the result is not known yet, because deliveries were still waiting when \`--follow\` ended
  or the time of \`send --wait\` was over.
- **Which server:** \`POSTHORN_URL\` (default \`http://127.0.0.1:4800\`) and \`POSTHORN_API_KEY\`, or \`"url"\` and \`"apiKey"\` in
  the JSON file that \`--config\` or \`POSTHORN_CONFIG\` names.
- **What cannot be undone asks first** on a terminal, and needs \`--yes\` without one. What works in bulk has \`--dry-run\`.
- **Instants** are \`2h\` (ago) or RFC 3339; **durations** read \`250ms\`, \`20s\`, \`5m\`, \`2h\`, \`7d\`.
`

/** The whole page; a test keeps the file and this function equal. */
export function cliPage(): string {
  const shapes = commandShapes(buildProgram(openTerminal({}))).filter(({ path }) => !path.includes('help'))
  const leaves = shapes.filter(({ commands, path }) => commands.length === 0 && path.length > 0)
  const rows = leaves.map(
    ({ path, about }) => `| [\`${path.join(' ')}\`](#posthorn-${path.join('-')}) | ${cell(about)} |`,
  )
  return [head, '| command | |', '| --- | --- |', ...rows, '', ...leaves.map(section)].join('\n')
}

function section(shape: CommandShape): string {
  const name = shape.path.join(' ')
  const lines = examples[name] ?? []
  const own = shape.options.filter(({ names }) => !names.includes('--help'))
  const takesSettings = name !== 'start' && own.some(({ names }) => names.includes('--upkeep-every'))
  const shown = takesSettings ? own.filter(({ flags }) => !settingFlags.has(flags)) : own
  const rows = [...shape.arguments.map((argument) => row(argument.name, argument)), ...shown.map(optionRow)]
  return [
    `## posthorn ${name}`,
    '',
    `${capital(shape.about)}: \`${shape.usage}\``,
    '',
    '```sh',
    ...lines,
    '```',
    '',
    ...(rows.length === 0 ? [] : ['| | |', '| --- | --- |', ...rows, '']),
    ...(takesSettings ? ['And every setting of [`posthorn start`](#posthorn-start).', ''] : []),
  ].join('\n')
}

function optionRow(option: OptionShape): string {
  return row(option.flags, option)
}

function row(
  name: string,
  { about, choices, byDefault }: Readonly<{ about: string; choices: readonly string[]; byDefault?: string | null }>,
): string {
  const allowed = choices.length === 0 ? '' : ` (${choices.map((choice) => `\`${choice}\``).join(', ')})`
  const otherwise = byDefault === undefined || byDefault === null ? '' : `; default \`${byDefault}\``
  return `| \`${name.replaceAll('|', '\\|')}\` | ${cell(about)}${allowed}${otherwise} |`
}

/** A bar would end the cell, and angle brackets outside of code would be taken for HTML. */
function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1)
}

if (import.meta.main) process.stdout.write(cliPage())
