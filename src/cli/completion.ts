import { Argument, type Command } from 'commander'
import { commandShapes } from './command-tree.ts'
import { completionScript, type Shell, shells } from './completion-scripts.ts'
import type { Terminal } from './terminal.ts'

const afterHelp = `
To have it in every shell, add the line to its start-up file:
  bash  ~/.bashrc                    source <(posthorn completion bash)
  zsh   ~/.zshrc, after compinit     source <(posthorn completion zsh)
  fish  ~/.config/fish/config.fish   posthorn completion fish | source`

export function addCompletion(program: Command, terminal: Terminal): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .addHelpText('after', afterHelp)
    .action((shell: Shell) => terminal.write(completionScript(shell, commandShapes(program))))
}
