import errno
import os
import signal
import stat

import pytest

from transformer_lib.files import atomic_write, folder_lock, write_csv, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write(path, text="new", then=lambda: None):
    with atomic_write(path) as unfinished:
        unfinished.write_text(text)
        then()


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    return path


def test_the_file_appears_when_it_is_complete_and_the_old_one_stays_until_then(path):
    with atomic_write(str(path)) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent == path.parent
        assert path.read_text() == "old"
        write(path.with_name("another"))  # side by side
    assert path.read_text() == "new"
    assert names(path.parent) == ["another", "file"]
    write(path.parent / "new" / "folder" / "file")
    assert names(path.parent / "new" / "folder") == ["file"]


def test_the_file_may_be_read_by_whom_the_umask_says(path):
    old = os.umask(0o027)
    try:
        write(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_error_leaves_what_was_there_and_nothing_else(path):
    for there in (True, False):
        with pytest.raises(KeyboardInterrupt):
            write(path, "ne", then=raising(KeyboardInterrupt))
        with pytest.raises(FileNotFoundError), atomic_write(path):
            pass  # nothing was written
        assert names(path.parent) == ["file"] * there
        assert not there or path.read_text() == "old"
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_very_end_leaves_what_was_there(
    path, monkeypatch, moment
):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, moment, raising(full))
    with pytest.raises(OSError, match=r"No space left on device: .*file'"):
        write(path)
    assert names(path.parent) == ["file"]
    assert path.read_text() == "old"


def test_what_a_killed_process_left_is_written_over(path):
    child = os.fork()
    if child == 0:
        die = os.kill
        write(path, "a long beginning", then=lambda: die(os.getpid(), signal.SIGKILL))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert path.read_text() == "old"
    assert len(names(path.parent)) == 2
    write(path)
    assert names(path.parent) == ["file"]
    assert path.read_text() == "new"


# -- One process at a time -------------------------------------------------------------


def another_process_with(folder):
    """Start a process that has the folder until it is killed; None if it is refused."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with folder_lock(folder):
                os.write(writer, b"!")
                signal.pause()
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as answer:
        if answer.read(1) == b"!":
            return child
    os.waitpid(child, 0)
    return None


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_second_process_is_told_that_the_folder_is_in_use(tmp_path):
    folder = tmp_path / "new" / "folder"
    child = another_process_with(folder)
    try:
        with (
            pytest.raises(ValueError, match=f"{folder} is in use: another process"),
            folder_lock(str(folder)),
        ):
            pytest.fail("both are in")
        with folder_lock(tmp_path):  # another folder
            pass
        write(folder / "file")  # it only keeps out who asks
    finally:
        end(child)
    for _ in range(2):  # what was killed, and what has ended, is not in the way
        with folder_lock(folder):
            assert names(folder) == [".lock", "file"]


def test_who_has_a_folder_may_ask_again_under_any_of_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with folder_lock(None), folder_lock(None):  # no folder is nobody's
        assert names(tmp_path) == []
    with folder_lock(tmp_path / "folder"):
        with folder_lock("folder"):
            pass
        assert another_process_with("folder") is None  # still in use
    with pytest.raises(KeyboardInterrupt), folder_lock("folder"):
        raise KeyboardInterrupt
    end(another_process_with("folder"))  # an error has given it back


# -- Tables and records ----------------------------------------------------------------


def test_rows_become_csv_and_an_error_leaves_the_old_table(tmp_path):
    path = tmp_path / "table.csv"
    write_csv(path, [{"a": 1, "b": "x, y"}, {"a": 0.5, "b": ""}])
    with pytest.raises(ValueError, match="fieldnames"):
        write_csv(path, [{"a": 1}, {"c": 2}])
    assert path.read_bytes() == b'a,b\n1,"x, y"\n0.5,\n'
    assert names(tmp_path) == ["table.csv"]


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "record.json"
    write_json(str(path), {"a": 1.5})
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        write_json(path, {"a": {1}})
    assert path.read_bytes() == b'{\n  "a": 1.5\n}\n'
    assert names(path.parent) == ["record.json"]
