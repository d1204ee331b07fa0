import errno
import os
import signal
import stat

import pytest

from transformer_lib.files import atomic_write, folder_lock, write_csv, write_json


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    with atomic_write(str(path)) as unfinished:
        unfinished.write_text("new")
        assert unfinished.parent == path.parent
        assert not path.exists()
    assert path.read_text() == "new"
    assert names(path.parent) == ["file"]


def test_what_was_there_stays_until_then(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path) as unfinished:
        unfinished.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_two_files_may_be_written_side_by_side(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    with atomic_write(one) as first, atomic_write(other) as second:
        first.write_text("1")
        second.write_text("2")
    assert (one.read_text(), other.read_text()) == ("1", "2")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("old", ["old", None])
def test_an_error_leaves_what_was_there_and_nothing_else(tmp_path, error, old):
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)

    def write():
        with atomic_write(path) as unfinished:
            unfinished.write_text("ne")
            raise error

    with pytest.raises(error):
        write()
    assert names(tmp_path) == (["file"] if old else [])
    assert not old or path.read_text() == old


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_very_end_leaves_what_was_there(
    tmp_path, monkeypatch, moment
):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, moment, fail)
    path = tmp_path / "file"
    path.write_text("old")
    with (
        pytest.raises(OSError, match=r"No space left on device: .*file'"),
        atomic_write(path) as unfinished,
    ):
        unfinished.write_text("new")
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "file"):
        pass
    assert names(tmp_path) == []


def test_what_a_killed_process_left_is_written_over(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    child = os.fork()
    if child == 0:
        with atomic_write(path) as unfinished:
            unfinished.write_text("a long beginning")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 2
    with atomic_write(path) as unfinished:
        unfinished.write_text("new")
    assert names(tmp_path) == ["file"]
    assert path.read_text() == "new"


# -- One process at a time -------------------------------------------------------------


def another_process_with(folder):
    """Start a process that has the folder; return its number."""
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
    assert os.read(reader, 1) == b"!"
    os.close(reader)
    return child


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
        with atomic_write(folder / "file") as unfinished:  # it only keeps out who asks
            unfinished.write_text("new")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for _ in range(2):  # what was killed, and what has ended, is not in the way
        with folder_lock(folder):
            assert names(folder) == [".lock", "file"]


def test_who_has_a_folder_may_ask_again_under_any_of_its_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with folder_lock(tmp_path / "folder"):
        with folder_lock("folder"):
            pass
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # still in use after the inner one has ended
            try:
                with folder_lock("folder"):
                    pass
            except ValueError:
                os.write(writer, b"in use")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        assert os.read(reader, 10) == b"in use"
        os.close(reader)


def test_an_error_gives_the_folder_back(tmp_path):
    with pytest.raises(KeyboardInterrupt), folder_lock(tmp_path):
        raise KeyboardInterrupt
    child = another_process_with(tmp_path)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_no_folder_is_nobodys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with folder_lock(None), folder_lock(None):
        assert names(tmp_path) == []


# -- Tables and records ----------------------------------------------------------------


def test_the_file_may_be_read_by_whom_the_umask_says(tmp_path):
    old = os.umask(0o027)
    try:
        with atomic_write(tmp_path / "file") as unfinished:
            unfinished.write_text("new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_rows_become_csv_and_an_error_leaves_the_old_table(tmp_path):
    path = tmp_path / "table.csv"
    write_csv(path, [{"a": 1, "b": "x, y"}, {"a": 0.5, "b": ""}])
    assert path.read_bytes() == b'a,b\n1,"x, y"\n0.5,\n'
    with pytest.raises(ValueError, match="fieldnames"):
        write_csv(path, [{"a": 1}, {"c": 2}])
    assert path.read_bytes() == b'a,b\n1,"x, y"\n0.5,\n'
    assert names(tmp_path) == ["table.csv"]


def test_json_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "record.json"
    write_json(str(path), {"a": 1.5})
    assert path.read_bytes() == b'{\n  "a": 1.5\n}\n'
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        write_json(path, {"a": {1}})
    assert path.read_bytes() == b'{\n  "a": 1.5\n}\n'
    assert names(path.parent) == ["record.json"]
