import type { Argument, Command, Option } from 'commander'

// The command line as plain data, for what is made from it: shell completion and docs/cli.md.

export type OptionShape = Readonly<{
  flags: string
  names: readonly string[]
  about: string
  /** The name of its value, such as `file`; null: it takes none. */
  value: string | null
  choices: readonly string[]
  /** As told to people; null: none, or the description tells it. */
  byDefault: string | null
}>

export type ArgumentShape = Readonly<{ name: string; about: string; choices: readonly string[] }>

export type CommandShape = Readonly<{
  /** Empty for the program itself. */
  path: readonly string[]
  usage: string
  about: string
  arguments: readonly ArgumentShape[]
  options: readonly OptionShape[]
  commands: readonly Readonly<{ name: string; about: string }>[]
}>

/** The program and every command below it, each before its own commands. */
export function commandShapes(command: Command, path: readonly string[] = []): readonly CommandShape[] {
  const help = command.createHelp()
  const below = help.visibleCommands(command)
  const shape: CommandShape = {
    path,
    usage: help.commandUsage(command),
    about: help.commandDescription(command),
    arguments: command.registeredArguments.map(argumentShape),
    options: help.visibleOptions(command).map(optionShape),
    commands: below.map((one) => ({ name: one.name(), about: help.subcommandDescription(one) })),
  }
  return [shape, ...below.flatMap((one) => commandShapes(one, [...path, one.name()]))]
}

function argumentShape(argument: Argument): ArgumentShape {
  return { name: argument.name(), about: argument.description, choices: argument.argChoices ?? [] }
}

function optionShape(option: Option): OptionShape {
  const names = [option.short, option.long].filter((name) => name !== undefined)
  const { defaultValue } = option
  const isTold = defaultValue !== undefined && (option.required || option.optional)
  return {
    flags: option.flags,
    names,
    about: option.description,
    value: /[<[]([^>\]]+)[>\]]/.exec(option.flags)?.[1] ?? null,
    choices: option.argChoices ?? [],
    byDefault: isTold ? (option.defaultValueDescription ?? String(defaultValue)) : null,
  }
}

/** Whether a value names a file, which a shell can complete by itself. */
export function isFile(value: string | null): boolean {
  return value !== null && /^(?:file|path|folder|module)$/.test(value)
}
