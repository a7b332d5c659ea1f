/**
 * What completes words of the command in a shell, as a script for that shell.
 *
 * Invariant: a script has all words in it and asks nobody, so it is fast, and belongs to the
 * release that has printed it. Where a file may stand the shell completes names of files.
 */

import { type CommandWords, everyCommand, type OptionWords } from './tree.ts'

/** A text as all three shells read it: within single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** `fish` has an escape of its own within single quotes. */
function quotedForFish(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** The commands that stand behind another one, quoted. */
function pathsBelow(tree: CommandWords): string[] {
  const paths = everyCommand(tree).filter(({ path }) => path !== tree.path)
  return paths.map(({ path }) => quoted(path))
}

/** Each option that takes a value, by the command that it is of. */
function valued(tree: CommandWords): { readonly at: string; readonly option: OptionWords }[] {
  return everyCommand(tree).flatMap(({ path, options }) => {
    const taking = options.filter(({ takesValue }) => takesValue)
    return taking.map((option) => ({ at: `${path} ${option.long}`, option }))
  })
}

/** Options whose value may be anything: the shell completes files. */
function freeValues(tree: CommandWords): string {
  const free = valued(tree).filter(({ option }) => option.choices.length === 0)
  return free.map(({ at }) => quoted(at)).join('|')
}

function fewValues(tree: CommandWords): { readonly at: string; readonly choices: string }[] {
  const few = valued(tree).filter(({ option }) => option.choices.length > 0)
  return few.map(({ at, option }) => ({ at: quoted(at), choices: option.choices.join(' ') }))
}

export function bashScript(tree: CommandWords): string {
  const cases = everyCommand(tree).map(({ path, options, commands }) => {
    const below = quoted(commands.map(({ name }) => name).join(' '))
    const long = quoted(options.map((option) => option.long).join(' '))
    return `    ${quoted(path)}) words=${below} options=${long} ;;`
  })
  const few = fewValues(tree).map(({ at, choices }) => {
    return `    ${at}) COMPREPLY=($(compgen -W ${quoted(choices)} -- "$current")); return ;;`
  })
  return `# Completion of perdure in bash: source <(perdure completion bash)
_perdure() {
  local at=${tree.name} word words options
  local current=\${COMP_WORDS[COMP_CWORD]}
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$at $word" in ${pathsBelow(tree).join('|')}) at="$at $word" ;; esac
  done
  COMPREPLY=()
  case "$at \${COMP_WORDS[COMP_CWORD-1]}" in
    ${freeValues(tree)}) return ;;
${few.join('\n')}
  esac
  case "$at" in
${cases.join('\n')}
  esac
  [[ $current == -* ]] && words=$options
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _perdure perdure
`
}

/** Words with what they mean, as \`_describe\` takes them. */
function described(words: readonly { readonly word: string; readonly about: string }[]): string {
  return words.map(({ word, about }) => quoted(`${word}:${about}`)).join(' ')
}

export function zshScript(tree: CommandWords): string {
  const cases = everyCommand(tree).map(({ path, options, commands }) => {
    const below = commands.map(({ name, about }) => ({ word: name, about }))
    const long = options.map(({ long: word, about }) => ({ word, about }))
    const [here, dashed] = [described(below), described(long)]
    return `    ${quoted(path)}) words_here=(${here}) options_here=(${dashed}) ;;`
  })
  const few = fewValues(tree).map(
    ({ at, choices }) => `    ${at}) compadd -- ${choices}; return ;;`,
  )
  return `#compdef perdure
# Completion of perdure in zsh: source <(perdure completion zsh)
_perdure() {
  local at=${tree.name} word
  local -a words_here options_here
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in ${pathsBelow(tree).join('|')}) at="$at $word" ;; esac
  done
  case "$at \${words[CURRENT-1]}" in
    ${freeValues(tree)}) _files; return ;;
${few.join('\n')}
  esac
  case "$at" in
${cases.join('\n')}
  esac
  if [[ $PREFIX == -* ]]; then
    _describe option options_here
  elif (( $#words_here > 0 )); then
    _describe command words_here
  else
    _files
  fi
}
# A file of the shell's own folder is the function itself when it is first called.
if [[ $funcstack[1] == _perdure ]]; then
  _perdure "$@"
elif (( $+functions[compdef] )); then
  compdef _perdure perdure
fi
`
}

export function fishScript(tree: CommandWords): string {
  const lines = everyCommand(tree).flatMap(({ path, options, commands }) => {
    const here = `complete -c ${tree.name} -n "__perdure_at '${path}'"`
    const below = commands.map(
      ({ name, about }) => `${here} -f -a ${name} -d ${quotedForFish(about)}`,
    )
    const long = options.map((option) => `${here} ${fishOption(option)}`)
    return [...below, ...long]
  })
  return `# Completion of perdure in fish: perdure completion fish | source
function __perdure_at
  set -l at ${tree.name}
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case ${pathsBelow(tree).join(' ')}
        set at "$at $word"
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}

function fishOption({ long, about, takesValue, choices }: OptionWords): string {
  const name = `-l ${long.slice(2)} -d ${quotedForFish(about)}`
  if (choices.length > 0) return `${name} -x -a ${quotedForFish(choices.join(' '))}`
  return takesValue ? `${name} -r` : name
}
