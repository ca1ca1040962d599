# Copyright: (c) 2026, gpuops.mps contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutation testing: ``python -m tests.mutation FILE TEST...`` changes FILE in one place at a time and runs the tests.

A change that no test notices is a survivor; each is printed with its line, and the exit code is 1 if there is any. Texts for
people are left alone.
Property tests run few examples (the profile ``dev``). Every change runs in a process of its own, forked from one that
has already imported the tests' libraries. `make venv` must have run.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import importlib.util
import os
import re
import signal
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COLLECTIONS = ROOT / ".cache" / "collections"
PACKAGE = "ansible_collections.gpuops.mps"
# Two words in a row, or nothing but quotes and stops, are a message; how it is worded is nobody's contract.
FOR_PEOPLE = re.compile(r"[a-z',] [a-z']|\A[ ',;:.()]+\Z")
SECONDS = 180  # a change may make a loop endless

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


Change = Callable[[Any], Any]


@dataclass(frozen=True)
class Mutant:
    """One change: the whole tree with it, and what it is."""

    tree: ast.Module
    line: int
    what: str


def changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """What can be changed about one node, and a function that changes a copy of it."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            yield f"comparison {type(operator).__name__}", lambda new, index=index: _with(new, "ops", index, COMPARISONS[type(new.ops[index])]())
    elif isinstance(node, ast.BoolOp):
        yield "and/or", lambda new: _set(new, "op", ast.Or() if isinstance(new.op, ast.And) else ast.And())
        for index in range(len(node.values)):
            yield f"operand {index} dropped", lambda new, index=index: _without(new, index)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", lambda new: new.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield f"operator {type(node.op).__name__}", lambda new: _set(new, "op", OPERATORS[type(new.op)]())
    elif isinstance(node, ast.IfExp):
        yield "always the first branch", lambda new: new.body
        yield "always the second branch", lambda new: new.orelse
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "returns None", lambda new: _set(new, "value", ast.Constant(None))
    elif isinstance(node, (ast.Continue, ast.Break)):
        yield "jump dropped", lambda new: ast.copy_location(ast.Pass(), new)
    elif isinstance(node, (ast.Raise, ast.AugAssign)) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield "statement dropped", lambda new: ast.copy_location(ast.Pass(), new)


def _constants(node: ast.Constant) -> Iterator[tuple[str, Change]]:
    value = node.value
    if isinstance(value, bool):
        yield f"{value} negated", lambda new: _set(new, "value", not value)
    elif isinstance(value, int):
        yield f"{value} + 1", lambda new: _set(new, "value", value + 1)
    elif isinstance(value, str) and value and not FOR_PEOPLE.search(value):
        yield f"text {value[:30]!r} changed", lambda new: _set(new, "value", f"X{value}X")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _set(node: Any, name: str, value: object) -> Any:
    setattr(node, name, value)
    return node


def _with(node: Any, name: str, index: int, value: object) -> Any:
    getattr(node, name)[index] = value
    return node


def _without(node: Any, index: int) -> Any:
    del node.values[index]
    return node if len(node.values) > 1 else node.values[0]


class _Changer(ast.NodeTransformer):
    """Changes the node with one number in the order of the walk."""

    def __init__(self, number: int, change: Change) -> None:
        self.number, self.change, self.seen = number, change, -1

    def visit(self, node: ast.AST) -> Any:
        self.seen += 1
        if self.seen == self.number:
            return self.change(node)
        return self.generic_visit(node)


class _Numbers(ast.NodeVisitor):
    """All nodes in the order in which a _Changer sees them."""

    def __init__(self) -> None:
        self.nodes: list[ast.AST] = []

    def visit(self, node: ast.AST) -> None:
        self.nodes.append(node)
        self.generic_visit(node)


def mutants(source: str) -> Iterator[Mutant]:
    """Every change of a file, docstrings and annotations left alone."""
    tree = ast.parse(source)
    numbers = _Numbers()
    numbers.visit(tree)
    untouched = set(_untouched(tree))
    for number, node in enumerate(numbers.nodes):
        if id(node) in untouched:
            continue
        for what, change in changes(node):
            changed = _Changer(number, change).visit(copy.deepcopy(tree))
            yield Mutant(ast.fix_missing_locations(changed), getattr(node, "lineno", 0), what)


def _untouched(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.keyword) and node.arg == "frozen":  # nothing here assigns to a dataclass
            parts = [node]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts = [node.returns, *(argument.annotation for argument in (*node.args.args, *node.args.kwonlyargs))]
        for part in parts:
            yield from (id(inner) for inner in ast.walk(part)) if part is not None else ()


def survives(mutant: Mutant, module: str, path: Path, tests: list[str]) -> bool:
    """Whether all tests pass with the change, in a child process. Running out of time counts as noticed."""
    child = os.fork()
    if child == 0:
        os._exit(_run(mutant, module, path, tests))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _run(mutant: Mutant, module: str, path: Path, tests: list[str]) -> int:
    import pytest

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    changed = types.ModuleType(module)
    changed.__file__, changed.__package__ = str(path), module.rpartition(".")[0]
    sys.modules[module] = changed
    try:
        exec(compile(mutant.tree, str(path), "exec"), changed.__dict__)
    except Exception:  # a change that breaks the import is noticed by everything
        return 1
    if importlib.util.find_spec(changed.__package__) is not None:
        setattr(sys.modules[changed.__package__], module.rpartition(".")[2], changed)
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def main(arguments: list[str]) -> int:
    """Run every change of one file; 1 if any survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Mutation testing of one file.")
    parser.add_argument("file", help="for example plugins/module_utils/_limits.py")
    parser.add_argument("tests", nargs="+", help="test files that are to notice every change")
    options = parser.parse_args(arguments)
    os.environ["HYPOTHESIS_PROFILE"] = "dev"
    sys.path.insert(0, str(COLLECTIONS))
    import hypothesis  # noqa: F401  imported once for all children
    import pytest  # noqa: F401
    import yaml  # noqa: F401

    path = (ROOT / options.file).resolve()
    module = f"{PACKAGE}.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}"
    importlib.import_module(module.rpartition(".")[0])
    total, survivors = 0, 0
    for mutant in mutants(path.read_text(encoding="utf-8")):
        total += 1
        if survives(mutant, module, path, options.tests):
            survivors += 1
            print(f"{options.file}:{mutant.line}: {mutant.what}", flush=True)
    print(f"{total} changes, {survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
