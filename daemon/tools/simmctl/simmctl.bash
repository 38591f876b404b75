# Completion of simmctl, simmd and simm-bench for bash. What there is to complete is read from the
# program's own --help, so it is always complete: subcommands, options, and values where the help
# lists them as {one,two}; elsewhere files.

# Prints the help of the command that the words before the cursor make. Words of `simmctl config
# check node` that are no subcommands end the descent.
_simm_help() {
  local program=$1 help next word
  shift
  local -a path=()
  help=$("$program" --help 2>/dev/null) || return
  for word in "$@"; do
    case $word in -*) continue ;; esac
    _simm_subcommands <<<"$help" | grep -qxF -- "$word" || continue
    next=$("$program" "${path[@]}" "$word" --help 2>/dev/null) || break
    path+=("$word")
    help=$next
  done
  printf '%s\n' "$help"
}

# Of a help text on standard input.
_simm_subcommands() { sed -n '/^Subcommands:/,$s/^  \([a-z][a-z-]*\),\{0,1\} .*/\1/p'; }
_simm_options() { sed -n '/^Options:/,/^Subcommands:/p' | grep -oE '^  (-[A-Za-z],)?--[a-z][a-z-]*' |
  grep -oE -- '--[a-z-]+'; }
# The values that the help lists for an option or, without one, for any positional.
_simm_values() {
  local lines
  lines=$(cat)
  if [ -n "$1" ]; then
    lines=$(grep -E -- "^  (-[A-Za-z],)?$1( |$)" <<<"$lines")
  else
    lines=$(sed -n '/^Positionals:/,/^[A-Z][a-z]*:$/{/^Positionals:/d;/^Options:/q;p}' <<<"$lines")
  fi
  grep -oE '\{[^}]*\}' <<<"$lines" | head -1 | tr -d '{}' | tr ',' '\n'
}
# Whether an option of the help wants a value.
_simm_wants_value() { grep -qE -- "^  (-[A-Za-z],)?$1 [A-Z]"; }

_simm() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} help all words
  local -a typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  COMPREPLY=()
  help=$(_simm_help "${COMP_WORDS[0]}" "${typed[@]}")
  # Options of the program may stand behind a subcommand.
  all=$help$'\n'$("${COMP_WORDS[0]}" --help 2>/dev/null)
  if [[ $before == --* ]] && _simm_wants_value "$before" <<<"$all"; then
    words=$(_simm_values "$before" <<<"$all")
    if [ -z "$words" ]; then
      compopt -o default 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
    fi
  elif [[ $current == -* ]]; then
    words=$(_simm_options <<<"$all" | sort -u)
  else
    words=$(_simm_subcommands <<<"$help"; _simm_values "" <<<"$help")
    if [ -z "$words" ]; then
      compopt -o default 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$current")
      return
    fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _simm simmctl simmd simm-bench
