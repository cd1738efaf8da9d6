# SPDX-License-Identifier: Apache-2.0
"""`rdd completion SHELL`: the completion script for a shell.

The scripts call `rdd __complete` for candidates and contain no command names. They
invoke the program as the user typed it, so that a copy completes itself.
"""

from collections.abc import Iterable

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

_BASH = r"""# bash completion for rdd
_rdd() {
    local line text words typed program=${COMP_WORDS[0]/#\~\//$HOME/}
    COMPREPLY=()
    # bash splits words at = and :, and replaces only the part behind the last of them.
    read -ra words <<< "${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
    typed=${words[${#words[@]} - 1]}
    typed=${typed%"${typed##*[=:]}"}
    while IFS= read -r line; do
        text=${line%%$'\t'*}
        COMPREPLY+=("${text#"$typed"}")
    done < <("$program" __complete "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _rdd rdd
"""

_ZSH = r"""#compdef rdd
# zsh completion for rdd
_rdd() {
    local line value
    local -a candidates assignments
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        if [[ $value == *= ]]; then
            assignments+=("${value//:/\\:}:${line#*$'\t'}")
        else
            candidates+=("${value//:/\\:}:${line#*$'\t'}")
        fi
    done < <("${words[1]/#\~\//$HOME/}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $#candidates + $#assignments == 0 )); then
        _files
        return
    fi
    local matched=1
    (( $#candidates )) && _describe -t values rdd candidates && matched=0
    (( $#assignments )) && _describe -t properties rdd assignments -S '' && matched=0
    return $matched
}
if [ "${funcstack[1]}" = "_rdd" ]; then
    _rdd "$@"
else
    compdef _rdd rdd
fi
"""

_FISH = r"""# fish completion for rdd
function __rdd_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
end
complete -c rdd -f -a '(__rdd_complete)'
"""

_SCRIPTS = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}


def run(call: Call) -> int:
    (shell,) = call.args
    if shell not in _SCRIPTS:
        raise CommandError(f"unknown shell {quote(shell)}; valid shells: {', '.join(_SCRIPTS)}")
    call.out.write(_SCRIPTS[shell])
    return 0


def complete() -> Iterable[str]:
    return _SCRIPTS
