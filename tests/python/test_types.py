"""The types that the package declares: right for mypy, and the same as what runs."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import simm
from simm import _native, kv
from simm.tensors import torch_or_none

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(simm.__file__).parent
PROJECT = HERE.parent.parent / "python" / "pyproject.toml"


def mypy(tmp_path, *arguments: str) -> subprocess.CompletedProcess:
    if torch_or_none() is not None:
        pytest.skip("types do not depend on torch: the half without it looks at them")
    asked = subprocess.run([sys.executable, "-c", "import mypy"], check=False, capture_output=True)
    if asked.returncode != 0:
        pytest.skip(f"{sys.executable} has no mypy: scripts/install_packages.sh installs it")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(PROJECT), "--cache-dir",
         str(tmp_path), "--no-error-summary", *arguments], check=False, capture_output=True,
        text=True, timeout=300, env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})


def test_mypy_finds_what_is_wrong_in_the_package_and_in_what_users_write(tmp_path):
    checked = mypy(tmp_path, "-p", "simm")
    assert (checked.stdout, checked.stderr) == ("", "")
    checked = mypy(tmp_path, str(HERE / "typed_use.py"))
    found = set(re.findall(r"typed_use\.py:(\d+): error: .*\[([a-z-]+)\]", checked.stdout))
    wanted = {(str(number), match.group(1))
              for number, line in enumerate((HERE / "typed_use.py").open(encoding="utf-8"), 1)
              if (match := re.search(r"# error: ([a-z-]+)$", line))}
    assert found == wanted, checked.stdout


def declared() -> dict:
    """{"Class.method" or "function": [signature]} of the stub."""
    found: dict = {}
    tree = ast.parse((PACKAGE / "_native.pyi").read_text(encoding="utf-8"))
    for node in tree.body:
        for part in node.body if isinstance(node, ast.ClassDef) else [node]:
            prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            if isinstance(part, ast.FunctionDef):
                found.setdefault(prefix + part.name, []).append(signature_of(part.args))
            elif isinstance(part, ast.AnnAssign):
                found[prefix + part.target.id] = []
    return found


def signature_of(arguments: ast.arguments) -> list:
    """[(name, default, keyword only)], without self; defaults as Python writes them."""
    names = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(names) - len(arguments.defaults)) + arguments.defaults
    rows = [(name.arg, default, False) for name, default in zip(names, defaults)]
    rows += [(name.arg, default, True)
             for name, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [(name, None if default is None else ast.unparse(default), only)
            for name, default, only in rows if name != "self"]


def runtime_signatures(function) -> list:
    """pybind11 writes them into the documentation: "name(self: T, a: int = 0) -> str"."""
    texts = re.findall(r"^(?:\d+\. )?\w+(\(.*\)) -> ", function.__doc__, re.MULTILINE)
    quoted = [re.sub(r": [\w.]+", "", text) for text in texts]  # types are not Python's
    return [signature_of(ast.parse(f"def f{text}: ...").body[0].args) for text in quoted]


def test_the_stub_says_what_the_native_module_has():
    stub = declared()
    methods = 0
    for name, signatures in stub.items():
        owner, _, member = name.rpartition(".")
        if member == "__buffer__":
            continue  # Python's own before 3.12
        thing = getattr(getattr(_native, owner) if owner else _native, member)
        if inspect.isroutine(thing) and member != "__len__":
            assert runtime_signatures(thing) == signatures, name
            methods += 1
    assert methods >= 20


def test_the_stub_leaves_nothing_out():
    stub = declared()
    missing = []
    for name, thing in vars(_native).items():
        if name.startswith("_"):
            continue
        if not inspect.isclass(thing):
            missing += [name] * (name not in stub)
            continue
        for member in vars(thing):
            if not member.startswith("_") and member not in ("name", "value"):
                missing += [f"{name}.{member}"] * (f"{name}.{member}" not in stub)
    assert missing == []


@pytest.mark.parametrize("name", kv.__all__)
def test_everything_public_is_documented_and_typed(name):
    thing = getattr(kv, name)
    assert thing.__doc__
    members = vars(thing) if inspect.isclass(thing) else {name: thing}
    for member, value in members.items():
        if isinstance(value, property) or not callable(value) or member.startswith("_"):
            continue
        assert value.__doc__, f"{name}.{member}"
        if inspect.isfunction(value):
            signature = inspect.signature(value)
            assert signature.return_annotation is not signature.empty, f"{name}.{member}"
            for parameter in signature.parameters.values():
                assert parameter.name == "self" or \
                    parameter.annotation is not parameter.empty, f"{name}.{member}"
