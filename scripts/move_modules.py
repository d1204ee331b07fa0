"""Move modules of the library, and rewrite every import and mention of them.

    python scripts/move_modules.py MOVES.json

The JSON has ``modules``, old to new dotted names whose files are moved; ``names``, old
module to the new modules of single names that were moved by hand; and ``faces``, the
packages whose ``__init__`` exports names: an import from outside goes through it.
"""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOPS = r"(?:transformer_lib|bookkit)"
IMPORT = re.compile(
    rf"(?P<before>^.*?)?\bfrom (?P<module>{TOPS}(?:\.\w+)*) import "
    r"(?P<names>\([^)]*\)|\w+(?: as \w+)?(?:, ?\w+(?: as \w+)?)*)",
    re.MULTILINE,
)
MENTION = re.compile(rf"(?<![\w@/.\0])({TOPS}(?:\.\w+)+)")
SUFFIXES = (".py", ".ipynb", ".md", ".css", ".js", ".json", ".toml", ".yml")
DONE = "\0"  # marks what was rewritten already


def path_of(module):
    plain = ROOT / (module.replace(".", "/") + ".py")
    return plain if plain.exists() else ROOT / module.replace(".", "/") / "__init__.py"


@cache
def exported(package):
    """The names that a package's face hands on, with their modules."""
    tree = ast.parse(path_of(package).read_text("utf-8"))
    return {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


class Mover:
    def __init__(self, plan):
        self.modules, self.names = plan.get("modules", {}), plan.get("names", {})
        self.faces = plan.get("faces", [])
        # A package of the same name: its bare mention stays.
        self.packages = {new.rpartition(".")[0] for new in self.modules.values()}
        for new in self.names.values():
            self.packages |= {module.rpartition(".")[0] for module in new.values()}

    def target(self, module, name):
        """Where a name lives now."""
        if name in self.names.get(module, {}):
            return self.names[module][name]
        return self.modules.get(module, module)

    def imported(self, match, inside):
        before, module = match["before"], match["module"]
        names = re.sub(r"#.*", "", match["names"]).strip("()")
        found = {}
        for part in filter(None, (part.strip() for part in names.split(","))):
            name, _, alias = part.partition(" as ")
            if f"{module}.{name}" in self.modules:  # from package import module
                home, _, new = self.modules[f"{module}.{name}"].rpartition(".")
                alias = alias or (name if new != name else "")
                part = f"{new} as {alias}" if alias else new
            else:
                home = self.target(module, name)
            found.setdefault(home, []).append(part)
        for face in self.faces:  # if it exports all of a module's names
            is_inside = inside == face or inside.startswith(f"{face}.")
            for home in [home for home in found if home.startswith(f"{face}.")]:
                bare = [part.partition(" as ")[0] for part in found[home]]
                if not is_inside and all(exported(face).get(n) == home for n in bare):
                    found.setdefault(face, []).extend(found.pop(home))
        start = f"{before or ''}from {DONE}"
        if list(found) == [module]:
            return f"{start}{module} import {match['names']}"
        is_statement = before is not None and not before.strip()
        joint = f"\n{start}" if is_statement else f"; from {DONE}"
        lines = []
        for home, parts in found.items():
            names = ", ".join(parts)
            lines.append(f"{home} import " + (f"({names})" if is_statement else names))
        return start + joint.join(lines)

    def mention(self, match):
        full = match[1]
        moved = {*self.modules.values(), *self.faces}
        if any(
            f"{full}.".startswith(f"{new}.") for new in moved if new not in self.modules
        ):
            return full
        parts = full.split(".")
        for end in range(len(parts), 1, -1):
            module, rest = ".".join(parts[:end]), parts[end:]
            if rest and rest[0] in self.names.get(module, {}):
                return ".".join([self.names[module][rest[0]], *rest])
            if module in self.modules:
                if module in self.packages and not rest:
                    return full
                if module in self.packages and not re.match(r"[A-Za-z]", rest[0]):
                    return full
                return ".".join([self.modules[module], *rest])
        return full

    def text(self, text, inside=""):
        text = IMPORT.sub(lambda match: self.imported(match, inside), text)
        text = MENTION.sub(self.mention, text)
        for old, new in self.modules.items():
            old, new = old.replace(".", "/") + ".py", new.replace(".", "/") + ".py"
            text = re.sub(rf"(?<![\w/]){re.escape(old)}\b", new, text)
        return text.replace(DONE, "")

    def notebook(self, text):
        book = json.loads(text)
        for cell in book["cells"]:
            new = self.text("".join(cell["source"]))
            cell["source"] = new.splitlines(keepends=True)
        return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def main():
    mover = Mover(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    for old, new in mover.modules.items():
        source, target = path_of(old), ROOT / (new.replace(".", "/") + ".py")
        if source.exists() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["git", "mv", source, target], check=True)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    for name in listed:
        path = ROOT / name
        if (
            path.suffix not in SUFFIXES
            or "vendor" in name
            or name == "scripts/move_modules.py"
            or path.name == "CHANGELOG.md"
            or not path.exists()
        ):
            continue
        text = path.read_text("utf-8")
        if "transformer_lib" not in text and "bookkit" not in text:
            continue
        if path.suffix == ".ipynb":
            new = mover.notebook(text)
        else:
            new = mover.text(
                text, ".".join(path.relative_to(ROOT).with_suffix("").parts)
            )
        if new != text:
            path.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
