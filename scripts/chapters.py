"""Open chapters in JupyterLab with the outputs of the build, which no file stores.

A cell that has not been run shows what the build made of the same code. These outputs
come from the notebooks that the pages offer for download. They are removed before a
notebook is saved, so the project's notebooks stay without outputs. What a reader ran is
saved as usual.
"""

from pathlib import Path

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets import Unicode, default

# Sources of pages that JupyterLab cannot show well. Links still open them.
NOT_LISTED = ["_static", "extra", "api*.md", "bibliography.md", "references.bib"]
NOT_LISTED += ["intro.md", "teaching.md"]


class Chapters(AsyncLargeFileManager):
    """The notebooks of the book, with the outputs of the build while they are open."""

    executed = Unicode(help="Folder of the notebooks with outputs.").tag(config=True)

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
            cell.id: cell
            for cell in nbformat.read(file, as_version=4).cells
            if cell.get("outputs")
        }
        return [
            (cell, known[cell["id"]].outputs)
            for cell in notebook["cells"]
            if cell.get("id") in known
            and cell["source"] == known[cell["id"]].source
            and cell["execution_count"] is None
            and cell["outputs"] in ([], known[cell["id"]].outputs)
        ]
