"""Results of drills, in a file beside the contracts: `contracts.drill.json` for `contracts.yaml`, `tools.drill.json` for code."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from landed.core.contract import Contract, Problem, contract_json
from landed.core.contract_weak import Weakness
from landed.core.errors import LandedError
from landed.sdk.errors import SettingsError


class DrillStopped(LandedError):
    """The drill cannot go on: the tool does not go where it was led, or has no effect there."""


class DrillResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a drill saw of one tool."""

    tool: str
    contract_digest: str
    """SHA-256 (hex) of the contract that was tried."""
    provider: str
    """Scheme, host and port."""
    at_ms: int
    """Milliseconds since the epoch, UTC."""
    by: str = ""
    """Who tried it; empty where an older file does not say."""
    samples: int
    key: Literal["honoured", "not_honoured", "not_tried"]
    """Whether a second call under the same operation id had no second effect."""
    lag_s: float | None
    """Longest time from the answer of a call to the first look-up that saw its effect; None: one was never seen."""
    absence: Literal["reliable", "unreliable"]
    """Whether `not there` was said of no effect that was seen before, nor of one after the safe window."""
    receipt: Literal["stable", "unstable"]
    """Whether call and all look-ups showed one reference and one receipt."""
    lost_answer: Literal["found", "not_found", "not_tried"]
    """Whether an effect whose answer was lost on the way was found by its look-up."""
    differences: tuple[Weakness, ...] = ()
    """Where the contract declares something else."""


def digest_of(contract: Contract) -> str:
    return hashlib.sha256(contract_json(contract).encode()).hexdigest()


def beside(path: str | Path) -> Path:
    """The file of results for contracts that stand in *path*."""
    return Path(path).with_suffix(".drill.json")


def read_results(path: Path) -> dict[str, DrillResult]:
    """Results by tool; none where there is no file.

    Raises:
        SettingsError: the file is not one of results.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, DrillResult])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        rule = " ".join(str(error).split())
        raise SettingsError("drill results", [Problem(str(path), f"cannot be read as results of drills: {rule}")]) from error


def keep_result(path: Path, result: DrillResult) -> None:
    """Puts *result* in the place of an earlier one of its tool; the file is replaced whole or not at all.

    Raises:
        SettingsError: the file cannot be read or written.
    """
    known = read_results(path) | {result.tool: result}
    content = msgspec.json.format(msgspec.json.encode(dict(sorted(known.items()))), indent=2) + b"\n"
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as made:
            made.write(content)
        os.chmod(made.name, 0o644)
        os.replace(made.name, path)
    except OSError as error:
        rule = f"cannot be written ({error.strerror or type(error).__name__})"
        raise SettingsError("drill results", [Problem(str(path), rule)]) from error
