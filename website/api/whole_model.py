"""The whole model on one page, extracted from the modules of the library.

What a first reading can do without is left out: argument checks, annotations, all but
the first line of each docstring, and the branches that a ``KNOWN`` value never takes,
such as those with a cache.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "transformer_lib" / "model"
ORDER = """masks attention positions embedding feed_forward residual encoder decoder
config parts transformer"""
# The arguments, attributes and variables that always have one value on this page.
KNOWN = {"cache": None, "start": 0, "layout": "interleaved", "positions": "interleaved"}
LEFT_OUT = {"__post_init__", "new_cache", "base", "tensor2tensor", "_keys_values"}
RENAMED = {"_keys_values": "_project"}  # the same where there is no cache
UNUSED = {"SINUSOIDAL", "LAYOUTS", "config_type"}
IMPORTS = """\
import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F


"""
CHECK = re.compile(r"(require|check)_\w+")
COMMENT = re.compile(r"^( *)['\"](# .*)['\"]$", re.MULTILINE)
FLAT = r"[^()]*(?:\([^()]*\)[^()]*)*"
TUPLE = re.compile(rf"^( *(?:return|[\w, ]+ =) )\(({FLAT})\)$", re.MULTILINE)
AT_THE_END = re.compile(r"\n *['\"]#>(# .*)['\"]$", re.MULTILINE)


def whole_model():
    """Return the source of the model: Python that runs by itself."""
    parts = [cut((FOLDER / f"{name}.py").read_text("utf-8")) for name in ORDER.split()]
    command = [sys.executable, "-m", "ruff", "format", "-"]
    text = IMPORTS + "\n\n\n".join(parts)
    return subprocess.run(
        command, input=text, capture_output=True, check=True, encoding="utf-8"
    ).stdout


def cut(text):
    """Return what is left of a module."""
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            comments[token.start[0]] = token.string if alone else f"#>{token.string}"
    text = ast.unparse(Cut(comments).visit(ast.parse(text)))
    text = TUPLE.sub(r"\1\2", text).replace("** (-0.5)", "** -0.5")
    return COMMENT.sub(r"\1\2", AT_THE_END.sub(r"  \1", text))


def constant(value):
    """Return a node for a value that is known, and marked as such."""
    node = ast.Constant(value)
    node.known = True
    return node


class Cut(ast.NodeTransformer):
    """Leaves out what the page does without."""

    def __init__(self, comments):
        self.comments, self.known = comments, {}

    def body(self, statements):
        """Cut statements, keep their comments, and stop after a return."""
        for old in statements:
            new = self.visit(old)
            found = new if isinstance(new, list) else [new] if new else []
            if found and (above := self.comments.pop(old.lineno - 1, "#>"))[1] != ">":
                yield ast.Expr(ast.Constant(above))
            yield from found
            if found and (beside := self.comments.pop(old.end_lineno, None)):
                yield ast.Expr(ast.Constant(beside))
            if found and isinstance(found[-1], ast.Return):
                return

    def block(self, node):
        """Cut the body, and the docstring to its first line."""
        described = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        text = ast.get_docstring(node) if described else None
        node.body = list(self.body(node.body[1:] if text else node.body))
        if text and not isinstance(node, ast.Module):
            node.body.insert(0, ast.Expr(ast.Constant(text.splitlines()[0])))
        return node

    visit_Module = visit_ClassDef = block

    def visit_FunctionDef(self, node):
        if node.name in LEFT_OUT:
            return None
        given, node.returns = node.args, None
        for each in [*given.args, *given.kwonlyargs]:
            each.annotation = None
        gone = [each for each in given.args if each.arg in KNOWN]
        self.known = {each.arg: KNOWN[each.arg] for each in gone}
        given.args = [each for each in given.args if each not in gone]
        del given.defaults[len(given.defaults) - len(gone) :]
        return self.block(node)

    def visit_Import(self, node):
        return None

    visit_ImportFrom = visit_Import

    def visit_If(self, node):
        node.test = self.visit(node.test)
        if isinstance(node.test, ast.Constant):
            return list(self.body(node.body if node.test.value else node.orelse))
        if isinstance(node.body[-1], ast.Raise):
            return None
        node.orelse = list(self.body(node.orelse))
        return self.block(node)

    def visit_Expr(self, node):
        match node.value:
            case ast.Call(func=ast.Name(id=name)) if CHECK.fullmatch(name):
                return None
        return self.generic_visit(node)

    def visit_Try(self, node):
        return list(self.body(node.body))

    def visit_With(self, node):
        return list(self.body(node.body))

    def visit_For(self, node):
        match node:
            case ast.For(ast.Tuple([one, ast.Name(name)]), ast.Call(args=[many, _])):
                self.known[name] = None
                node.target, node.iter = one, many
        return self.block(node)

    def visit_Assign(self, node):
        node.value, (target,) = self.visit(node.value), node.targets
        names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
        match node.value:
            case ast.Constant(value=value) if names[0] in KNOWN or value is None:
                self.known[names[0]] = value
                return None
            case ast.Tuple(elts=[ast.Constant(value=None), *_]):
                self.known |= dict.fromkeys(names)
                return None
        return None if names[0] in UNUSED | set(self.known) else node

    def visit_AnnAssign(self, node):
        if node.target.id in KNOWN:
            return None
        if isinstance(node.annotation, ast.Name):  # a field
            return node
        return ast.Assign([node.target], node.value, lineno=node.lineno)

    def visit_Name(self, node):
        reads = isinstance(node.ctx, ast.Load) and node.id in self.known
        return constant(self.known[node.id]) if reads else node

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        node.attr = RENAMED.get(node.attr, node.attr)
        return constant(KNOWN[node.attr]) if node.attr in KNOWN else node

    def visit_Call(self, node):
        node = self.generic_visit(node)
        node.args = [each for each in node.args if not hasattr(each, "known")]
        return node

    def generic_visit(self, node):
        """Compute what depends only on what is known."""
        node = super().generic_visit(node)
        match node:
            case ast.Compare(ast.Constant(one), [ast.Is()], [ast.Constant(other)]):
                return ast.Constant(one is other)
            case ast.Compare(ast.Constant(one), [ast.Eq()], [ast.Constant(other)]):
                return ast.Constant(one == other)
            case ast.IfExp(test=ast.Constant(value=value)):
                return node.body if value else node.orelse
            case ast.BoolOp(values=[ast.Constant(value=None), other]):
                return other
            case ast.BinOp(left=ast.List([ast.Constant(None)])):
                return constant(None)
            case ast.BinOp(ast.Constant(0), ast.Add(), other):
                return other
            case ast.Slice(ast.Constant(0), upper):
                return ast.Slice(None, upper)
        return node
