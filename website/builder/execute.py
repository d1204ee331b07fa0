"""Execute notebooks several at a time, into the cache that Jupyter Book reads.

Each kernel gets one thread. A notebook that measures time, or starts processes of its
own, runs after the others, with nothing beside it.
"""

import json
import os
import re
import signal
import time
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn, JupyterCacheAbstract
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

from website.links.notebook_links import upgrade

RUNS_ALONE = re.compile(r"perf_counter|thread_time|process_time|processes\.workers")
CELL_TIMEOUT = 600  # seconds
GUESS = 10.0  # seconds, for a notebook that has never run here
CORES = (  # macOS and Windows do not say which of them this process may use
    len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
)
AT_ONCE = min(8, CORES or 1)


class ExecutionFailed(Exception):
    """A notebook did not run to its end; the message names the cell."""


@dataclass(eq=False)
class Job:
    """A notebook to execute.

    Attributes:
        path: Its file.
        notebook: Its content, with outputs once it has run.
        seconds: How long it takes: a guess, then what it took.
        began: When it began, on the monotonic clock.
    """

    path: Path
    notebook: nbformat.NotebookNode
    seconds: float
    began: float = 0.0

    def __post_init__(self) -> None:
        code = [cell.source for cell in self.notebook.cells if cell.cell_type == "code"]
        self.alone = any(map(RUNS_ALONE.search, code))
        self.cell: nbformat.NotebookNode | None = None  # the last one that began
        self.client = NotebookClient(
            self.notebook,
            timeout=CELL_TIMEOUT,
            record_timing=False,
            coalesce_streams=True,  # MyST-NB's nb_merge_streams adds line breaks
            extra_arguments=["--log-level=ERROR"],  # no notes about TCP
            resources={"metadata": {"path": str(self.path.parent)}},
            on_cell_start=self._note,
        )

    def run(self) -> None:
        """Execute the notebook, or raise an error that names the cell."""
        threads = {} if self.alone else {"OMP_NUM_THREADS": "1"}
        try:
            self.client.execute(env={**os.environ, **threads})
        except (CellControlSignal, DeadKernelError) as error:
            raise ExecutionFailed(self._explain(error)) from None
        self.seconds = time.monotonic() - self.began

    def stop(self) -> None:
        """Kill the kernel, if there is one."""
        kernel = self.client.km and self.client.km.provisioner
        if kernel and kernel.pid:
            os.kill(kernel.pid, signal.SIGKILL)

    def _note(self, cell: nbformat.NotebookNode, **_: object) -> None:
        self.cell = cell

    def _explain(self, error: Exception) -> str:
        cell = self.cell
        if cell is None:
            return f"book/{self.path.name} did not begin: {error}"
        said = [out for out in cell.outputs if out.output_type == "error"]
        told = "\n".join(said[0].traceback) if said else str(error)
        where = f"book/{self.path.name} stopped at cell {cell.get('id', '?')}"
        return f"{where}:\n\n{cell.source.strip()}\n\n{told.strip()}"


def execute(root: Path) -> int:
    """Execute each notebook of a book that is not in the cache.

    Args:
        root: The folder of the book.

    Returns:
        The number of notebooks executed.

    Raises:
        ExecutionFailed: If a notebook stops with an error. The others are finished.
    """
    cache = get_cache(str(root / "_build" / ".jupyter_cache"))
    record = root / "_build" / "seconds.json"
    seconds = json.loads(record.read_text("utf-8")) if record.is_file() else {}
    jobs = list(find_jobs(root, cache, seconds))
    # The longest first, so that no core is idle at the end.
    jobs.sort(key=lambda job: (job.alone, -job.seconds))
    done, failures = 0, []
    for job, failure in run_all(jobs):
        done += 1
        if failure is not None:
            failures.append(failure)
            continue
        uri = cache.add_nb_to_project(str(job.path)).uri
        bundle = CacheBundleIn(
            job.notebook, uri, data={"execution_seconds": job.seconds}
        )
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
        seconds[job.path.stem] = round(job.seconds, 1)
        unfinished = record.with_suffix(".part")
        unfinished.write_text(json.dumps(seconds), "utf-8")
        unfinished.replace(record)  # a build may be killed at any moment
    if failures:
        raise ExecutionFailed("\n\n".join(failures))
    return done


def find_jobs(
    root: Path, cache: JupyterCacheAbstract, seconds: dict[str, float]
) -> Iterator[Job]:
    """Find the notebooks that are not in the cache."""
    for path in sorted((root / "book").glob("*.ipynb")):
        try:
            source = upgrade(path.read_text("utf-8"), path.parent)
            notebook = nbformat.reads(source, as_version=4)
        except Exception as error:
            raise ExecutionFailed(f"book/{path.name} cannot be read: {error}") from None
        try:
            cache.match_cache_notebook(notebook)
        except KeyError:
            yield Job(path, notebook, seconds.get(path.stem, GUESS))


def run_all(jobs: list[Job]) -> Iterator[tuple[Job, str | None]]:
    """Run jobs, as many at once as there are cores, and give each as it ends.

    Args:
        jobs: The notebooks; those that run alone come last.

    Yields:
        The job and, if it failed, why.
    """
    waiting, running = list(jobs), {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            while waiting or running:
                while waiting and may_start(waiting[0], running.values()):
                    job = waiting.pop(0)
                    job.began = time.monotonic()
                    running[pool.submit(job.run)] = job
                report(waiting, running.values())
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield running.pop(future), failure_of(future)
        except BaseException:  # such as Ctrl-C
            for job in running.values():
                job.stop()
            raise


def may_start(job: Job, running: Collection[Job]) -> bool:
    """Whether a job may start beside those that are running."""
    if job.alone or any(other.alone for other in running):
        return not running
    return len(running) < AT_ONCE


def failure_of(future: Future) -> str | None:
    """Return why a job failed, or None if it succeeded."""
    try:
        return future.result()
    except ExecutionFailed as error:
        return str(error)


def report(waiting: list[Job], running: Collection[Job]) -> None:
    """Print what is running, how many notebooks are left and how long they may take."""
    now = time.monotonic()
    rest = {job: max(1.0, job.seconds - (now - job.began)) for job in running}
    rest |= {job: job.seconds for job in waiting}
    alone = sum(seconds for job, seconds in rest.items() if job.alone)
    left = alone + (sum(rest.values()) - alone) / AT_ONCE
    names = ", ".join(job.path.stem for job in running)
    print(
        f"executing {names}; {len(waiting)} more; about {left / 60:.1f} min left",
        flush=True,
    )
