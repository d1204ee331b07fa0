"""Open chapters in JupyterLab with the outputs of the build, which no file stores.

A cell that has not been run shows the outputs that the build made of the same code. They
come from the notebooks of the built pages, and are taken away before JupyterLab saves:
the project's notebooks stay without outputs, and what a reader ran is the reader's.
"""

import json
from pathlib import Path

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import NotebookNode, from_dict
from traitlets import Unicode, default

# Sources of pages that JupyterLab cannot show. Links still open them.
NOT_LISTED = ["_static", "extra", "api*.md", "bibliography.md", "references.bib"]


class Chapters(AsyncLargeFileManager):
    """The notebooks of the book, with the outputs of the build while they are open."""

    executed = Unicode(help="The folder of the notebooks with outputs.").tag(config=True)

    @default("hide_globs")
    def _hide_globs_default(self) -> list[str]:
        return [*AsyncLargeFileManager.hide_globs.default(), *NOT_LISTED]

    async def get(self, path: str, content: bool = True, *rest, **others) -> dict:
        """Read a file; a notebook gets the outputs of the build."""
        model = await super().get(path, content, *rest, **others)
        if model["type"] == "notebook" and model["content"]:
            for cell, built in self.built(model["content"], path):
                cell["outputs"] = built
                cell["metadata"]["trusted"] = True  # this project wrote them
        return model

    async def save(self, model: dict, path: str = "") -> dict:
        """Write a file; a notebook loses the outputs of the build."""
        if model.get("type") == "notebook" and model.get("content"):
            for cell, _ in self.built(model["content"], path):
                cell["outputs"] = []
        return await super().save(model, path)

    def built(self, notebook: dict, path: str) -> list[tuple[dict, list]]:
        """List the cells that have not been run, each with its outputs in the build.

        Args:
            notebook: As JupyterLab sends or gets it.
            path: Its path; that of a copy has no notebook in the build.

        Returns:
            No cell whose code was changed, and none with other outputs.
        """
        file = Path(self.executed, path.strip("/"))
        if not self.executed or not file.is_file():
            return []
        known = {
            cell["id"]: ("".join(cell["source"]), from_dict(cell["outputs"]))
            for cell in json.loads(file.read_text("utf-8"))["cells"]
            if cell.get("outputs")
        }
        found = []
        for cell in notebook["cells"]:
            code, outputs = known.get(cell.get("id"), (None, []))
            if code != "".join(cell["source"]) or cell["execution_count"] is not None:
                continue
            if not cell["outputs"] or same(cell["outputs"], outputs):
                found.append((cell, outputs))
        return found


def same(outputs: list, others: list) -> bool:
    """Compare outputs, whose texts may be split into lines."""
    return joined(outputs) == joined(others)


def joined(value: object) -> object:
    """Join the lines of all texts."""
    if isinstance(value, dict):
        return {name: joined(part) for name, part in value.items()}
    if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
        return "".join(value)
    return [joined(part) for part in value] if isinstance(value, list) else value
