"""Do the trainers work with the oldest and the newest libraries that pyproject.toml allows?

Makes an environment of each kind, installs this repository in it, runs tests, and prints one line a combination.

    python scripts/check_versions.py                      # lowest, then newest
    python scripts/check_versions.py here                 # the environment that runs this script, as it is
    python scripts/check_versions.py lowest --set transformers==5.12.0 trl==1.8.0      # all others the oldest

PyTorch is not downloaded: the environments get hard links to the one that runs this script.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CHOICES = ("lowest", "newest", "here")
# One step of each objective on a LLaVA and on grid-based models, through the training script.
TESTS = ("tests/integration/families/test_methods.py",)
TOOLS = ("pytest", "pytest-timeout", "hypothesis", "num2words")  # num2words: SmolVLM's processor
LINKED = ("torch", "torchvision")
LINKED_WITH = ("nvidia-", "cuda-", "triton")  # what only PyTorch needs, and is large
SHOWN = ("transformers", "trl", "peft", "accelerate", "datasets", "huggingface-hub", "tokenizers", "torch")


def declared(pyproject: Path = ROOT / "pyproject.toml") -> list[Requirement]:
    """Return what the project needs without extras."""
    return [Requirement(one) for one in tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]]


def lowest(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Return name -> lowest allowed version, of those that have a lower bound and are not linked."""
    return {
        canonicalize_name(one.name): bound.version
        for one in requirements
        for bound in one.specifier
        if bound.operator == ">=" and one.name not in LINKED
    }


def pin(text: str) -> tuple[str, str]:
    """Return name and version of `NAME==VERSION`.

    Raises:
        argparse.ArgumentTypeError: it is not of this form.
    """
    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        wanted = None
    bounds = list(wanted.specifier) if wanted else []
    if wanted is None or len(bounds) != 1 or bounds[0].operator != "==":
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME==VERSION, such as transformers==5.12.0")
    return canonicalize_name(wanted.name), bounds[0].version


def link(names: Iterable[str], target: Path) -> None:
    """Put installed distributions into another environment's site-packages: hard links, or copies across disks."""
    for name in names:
        distribution = metadata.distribution(name)
        for file in distribution.files or []:
            source, place = Path(str(file.locate())), target / file
            if ".." in file.parts or not source.is_file() or place.exists():
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, place)
            except OSError:
                shutil.copy2(source, place)


def linked() -> Iterator[str]:
    """Yield the installed distributions that environments share with this one."""
    for one in metadata.distributions():
        name = canonicalize_name(one.metadata["Name"])
        if name in LINKED or name.startswith(LINKED_WITH):
            yield name


def environment(folder: Path, pins: Mapping[str, str]) -> Path:
    """Make an environment with this repository and pinned versions; one that is there is brought to them.

    Returns:
        Its interpreter.

    Raises:
        subprocess.CalledProcessError: pip can't install them together; it says why in `stderr`.
    """
    python = folder / "bin/python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    own = [name for name in linked() if name not in pins]
    link(own, folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages")
    same = {name: metadata.version(name) for name in LINKED if name in own}
    wanted = [f"{name}=={version}" for name, version in {**same, **pins}.items()]
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--upgrade", "--upgrade-strategy", "eager"]  # an environment that was kept gets the newest, too
    subprocess.run([*install, "-e", str(ROOT), *TOOLS, *wanted], check=True, capture_output=True, text=True)
    return python


def versions(python: Path, names: Iterable[str]) -> str:
    """Return the versions that an interpreter finds, as one text."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    found = subprocess.run([str(python), "-c", code, *names], check=True, capture_output=True, text=True)
    return ", ".join(f"{name} {version}" for name, version in zip(names, found.stdout.split(), strict=True))


def run_tests(python: Path, tests: Sequence[str], log: Path) -> Path:
    """Run tests, slow ones too, with an interpreter; return the file of their results."""
    results = log.with_suffix(".xml")
    results.unlink(missing_ok=True)
    command = [str(python), "-m", "pytest", "-m", "not gpu", "-p", "no:cacheprovider", f"--junitxml={results}", *tests]
    # What PYTHONPATH names comes before the environment's own; this repository may.
    own = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("w", encoding="utf-8") as output:
        subprocess.run(command, cwd=ROOT, env=own, stdout=output, stderr=subprocess.STDOUT, check=False)
    return results


def counts(results: Path) -> tuple[str, list[str]]:
    """Return `12 passed, 1 failed` of a JUnit file, and a line for each failure: its test and message."""
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))  # noqa: S314 (pytest has just written it)
    failed, skipped = [], 0
    for case in cases:
        wrong = case.find("failure")
        wrong = case.find("error") if wrong is None else wrong
        if wrong is not None:
            message = (wrong.get("message") or wrong.text or "").strip().splitlines() or [""]
            failed.append(f"{case.get('name')}: {message[0]}")
        skipped += case.find("skipped") is not None
    text = f"{len(cases) - len(failed) - skipped} passed, {len(failed)} failed"
    return text + (f", {skipped} skipped" if skipped else ""), failed


def check(choice: str, set_to: Mapping[str, str], tests: Sequence[str], folder: Path) -> bool:
    """Check one combination and print its line; return whether all was well."""
    started = time.monotonic()
    pins = {**(lowest(declared()) if choice == "lowest" else {}), **set_to}
    try:
        python = Path(sys.executable) if choice == "here" else environment(folder / choice, pins)
    except subprocess.CalledProcessError as error:
        print(f"{choice}: can't be installed\n{error.stderr.strip()}", flush=True)
        return False
    log = folder / f"{choice}.log"
    results = run_tests(python, tests, log)
    if not results.exists():
        print(f"{choice}: pytest did not run\n{log.read_text(encoding='utf-8').strip()}", flush=True)
        return False
    text, failed = counts(results)
    print(
        f"{choice}: {versions(python, dict.fromkeys([*SHOWN, *set_to]))}: {text} ({time.monotonic() - started:.0f} s)",
        flush=True,
    )
    for line in failed:
        print(f"    {line}", flush=True)
    return not failed and not text.startswith("0 passed")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("versions", nargs="*", default=["lowest", "newest"], metavar="VERSIONS",
                      help=f"{', '.join(CHOICES)}; default: lowest newest")  # fmt: skip
    made.add_argument("--set", nargs="+", default=[], type=pin, metavar="NAME==VERSION", dest="set_to",
                      help="versions to take instead")  # fmt: skip
    made.add_argument("--tests", nargs="+", default=TESTS, metavar="PATH", help=f"default: {' '.join(TESTS)}")
    made.add_argument("--keep", type=Path, metavar="FOLDER",
                      help="make the environments and pytest's logs here, and keep them for the next time")  # fmt: skip
    return made


def main(argv: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(argv)
    if unknown := [one for one in asked.versions if one not in CHOICES]:
        parser().error(f"VERSIONS: {unknown[0]!r} is none of {', '.join(CHOICES)}")
    if asked.set_to and "here" in asked.versions:
        parser().error("--set changes an environment made for the check; `here` is left as it is")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        well = [check(one, dict(asked.set_to), asked.tests, folder) for one in asked.versions]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
