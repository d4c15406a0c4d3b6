"""README is tried: its example runs, its links lead somewhere, its commands are targets, its folders are there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_the_example_runs_and_says_what_it_promises() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refunded {")


def test_there_are_exactly_two_set_up_commands_and_both_are_targets() -> None:
    commands = re.findall(r"^\$ make (\S+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(commands) <= set(targets)


def test_make_prints_its_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for target in re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE):
        assert f"make {target}" in done.stdout


def test_every_folder_of_the_layout_exists() -> None:
    for folder in re.findall(r"^\| `([a-z_/]+)` \|", README, re.MULTILINE):
        assert (ROOT / folder).is_dir(), folder


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_document_holds_a_place_for_something_to_come(document: Path) -> None:
    assert not re.findall(r"@[A-Z]+@|TODO|FIXME|XXX", document.read_text())
