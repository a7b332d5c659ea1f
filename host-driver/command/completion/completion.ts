/** `perdure completion SHELL`: prints what completes words of the command in that shell. */

import { Argument, type Command } from 'commander'
import { Output } from '../base/output.ts'
import { bashScript, fishScript, zshScript } from './shells.ts'
import { type CommandWords, wordsOf } from './tree.ts'

const SCRIPTS: Readonly<Record<string, (tree: CommandWords) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

const HELP = `
To have it in every shell, put the line into the file that the shell reads:
  bash   source <(perdure completion bash)      ~/.bashrc
  zsh    source <(perdure completion zsh)       ~/.zshrc, behind compinit
  fish   perdure completion fish | source       ~/.config/fish/config.fish`

export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print what completes words of this command in a shell')
    .addArgument(new Argument('<shell>', 'of which shell').choices(Object.keys(SCRIPTS)))
    .addHelpText('after', HELP)
    .action((shell: string) => {
      const output = new Output(false)
      const script = SCRIPTS[shell]!(wordsOf(program))
      for (const line of script.trimEnd().split('\n')) output.print(line)
    })
}
