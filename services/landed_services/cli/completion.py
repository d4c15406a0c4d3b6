"""``landed completion``: a script that a shell completes commands and options with."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import Parameter

from ._exit import Exit


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="The shell that it is for.")],
) -> int:
    """Print the completion script for a shell. It knows the commands, options and choices of this release.

    For example:

        source <(landed completion bash)

        landed completion zsh > ~/.zfunc/_landed

        landed completion fish > ~/.config/fish/completions/landed.fish
    """
    from ._app import build

    print(build().generate_completion(prog_name="landed", shell=shell))
    return Exit.DONE
