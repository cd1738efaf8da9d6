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
    local line program=${COMP_WORDS[0]/#\~\//$HOME/}
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("$program" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _rdd rdd
"""

_ZSH = r"""#compdef rdd
# zsh completion for rdd
_rdd() {
    local line value
    local -a candidates
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        candidates+=("${value//:/\\:}:${line#*$'\t'}")
    done < <("${words[1]/#\~\//$HOME/}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe -t values rdd candidates
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
