import { type CommandShape, isFile, type OptionShape } from './command-tree.ts'

// Each script walks the words before the cursor to the command they name, and offers what that command takes. What a
// script asks is always `<command path>|<word>`, so that all three are the same tables in three languages.

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

export function completionScript(shell: Shell, shapes: readonly CommandShape[]): string {
  const offers = shapes.map(offerOf)
  switch (shell) {
    case 'bash':
      return bashScript(offers)
    case 'zsh':
      return zshScript(offers)
    case 'fish':
      return fishScript(offers)
  }
}

/** What can follow at one place of the command line. */
type Offer = Readonly<{
  at: string
  commands: CommandShape['commands']
  options: readonly OptionShape[]
  /** Choices of its first argument. */
  words: readonly string[]
}>

function offerOf({ path, commands, options, arguments: [first] }: CommandShape): Offer {
  return { at: path.join(' '), commands, options, words: first?.choices ?? [] }
}

/** The keys under which a script knows the options that take a value, the commands, and the values to choose from. */
function keysOf(offers: readonly Offer[]) {
  const valued = offers.flatMap(({ at, options }) =>
    options.filter(({ value }) => value !== null).flatMap((option) => keys(at, option)),
  )
  const commands = offers.flatMap(({ at, commands: below }) => below.map(({ name }) => `${at}|${name}`))
  const choices = offers.flatMap(({ at, options }) =>
    options.filter((option) => option.choices.length > 0).map((option) => [keys(at, option), option.choices] as const),
  )
  const files = offers.flatMap(({ at, options }) =>
    options.filter(({ value }) => isFile(value)).flatMap((option) => keys(at, option)),
  )
  return { valued, commands, choices, files }
}

function keys(at: string, { names }: OptionShape): readonly string[] {
  return names.map((name) => `${at}|${name}`)
}

function namesOf({ options }: Offer): readonly string[] {
  return options.flatMap(({ names }) => names)
}

/** For `case` of bash and zsh. */
function pattern(texts: readonly string[]): string {
  return texts.map(quoted).join('|')
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function bashScript(offers: readonly Offer[]): string {
  const { valued, commands, choices, files } = keysOf(offers)
  const offered = (words: readonly string[]) => `COMPREPLY=($(compgen -W ${quoted(words.join(' '))} -- "$current"))`
  return `# Completion of posthorn for bash. To load it: source <(posthorn completion bash)
_posthorn() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} at='' i
  # Bash takes --name=value apart at the =.
  if [[ $current == = ]]; then current=''; elif [[ $previous == = ]]; then previous=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at|\${COMP_WORDS[i]}" in
      ${pattern(valued)}) ((i++)) ;;
      ${pattern(commands)}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$at|$previous" in
${choices.map(([names, words]) => `    ${pattern(names)}) ${offered(words)}; return ;;`).join('\n')}
    ${pattern(files)}) compopt -o filenames; COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${pattern(valued)}) return ;;
  esac
  if [[ $current == -* ]]; then
    case "$at" in
${offers.map((offer) => `      ${quoted(offer.at)}) ${offered(namesOf(offer))} ;;`).join('\n')}
    esac
    return
  fi
  case "$at" in
${offers
  .map(({ at, commands: below, words }) => [at, [...below.map(({ name }) => name), ...words]] as const)
  .filter(([, words]) => words.length > 0)
  .map(([at, words]) => `    ${quoted(at)}) ${offered(words)} ;;`)
  .join('\n')}
  esac
}
complete -F _posthorn posthorn
`
}

function zshScript(offers: readonly Offer[]): string {
  const { valued, commands, choices, files } = keysOf(offers)
  const described = (name: string, about: string) => quoted(`${name.replaceAll(':', '\\:')}:${about}`)
  const optionsOf = ({ options }: Offer) =>
    options.flatMap(({ names, about }) => names.map((name) => described(name, about))).join(' ')
  const commandsOf = ({ commands: below, words }: Offer) =>
    [...below.map(({ name, about }) => described(name, about)), ...words.map(quoted)].join(' ')
  return `#compdef posthorn
# Completion of posthorn for zsh. To load it: source <(posthorn completion zsh)
_posthorn() {
  local at=''
  local -a commands options
  local -i i
  for ((i = 2; i < CURRENT; i++)); do
    case "$at|\${words[i]}" in
      (${pattern(valued)}) ((i++)) ;;
      (${pattern(commands)}) at="\${at:+$at }\${words[i]}" ;;
    esac
  done
  case "$at|\${words[CURRENT-1]}" in
${choices.map(([names, words]) => `    (${pattern(names)}) compadd -- ${words.map(quoted).join(' ')}; return ;;`).join('\n')}
    (${pattern(files)}) _files; return ;;
    (${pattern(valued)}) _message 'a value'; return ;;
  esac
  case "$at" in
${offers
  .map((offer) => `    (${quoted(offer.at)}) commands=(${commandsOf(offer)}) options=(${optionsOf(offer)}) ;;`)
  .join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o option options
  elif ((\${#commands})); then
    _describe command commands
  fi
}
if [[ "\${funcstack[1]}" == _posthorn ]]; then _posthorn "$@"; else compdef _posthorn posthorn; fi
`
}

function fishScript(offers: readonly Offer[]): string {
  const { valued, commands } = keysOf(offers)
  const listed = (texts: readonly string[]) => texts.map(fishQuoted).join(' ')
  return `# Completion of posthorn for fish. To load it: posthorn completion fish | source
function __posthorn_at
    set -l at ''
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
            continue
        end
        switch "$at|$word"
            case ${listed(valued)}
                set skip 1
            case ${listed(commands)}
                set at (string trim "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end
complete -c posthorn -f
${offers.flatMap(fishLines).join('\n')}
`
}

function fishLines({ at, commands, options, words }: Offer): readonly string[] {
  const start = `complete -c posthorn -n ${fishQuoted(`__posthorn_at ${fishQuoted(at)}`)}`
  return [
    ...commands.map(({ name, about }) => `${start} -a ${fishQuoted(name)} -d ${fishQuoted(about)}`),
    ...words.map((word) => `${start} -a ${fishQuoted(word)}`),
    ...options.map(({ names, about, value, choices }) => {
      const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`))
      const taken = choices.length > 0 ? ` -x -a ${fishQuoted(choices.join(' '))}` : isFile(value) ? ' -r -F' : ' -x'
      return `${start} ${flags.join(' ')} -d ${fishQuoted(about)}${value === null ? '' : taken}`
    }),
  ]
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
