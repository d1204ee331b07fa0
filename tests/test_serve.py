"""`make serve`: the pages on this computer, or a sentence that says why not."""

import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from book_files import ROOT

SERVE = ROOT / "scripts" / "serve.py"


def refused(port):
    done = subprocess.run(
        [sys.executable, SERVE, str(port)], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 1
    return done.stderr


def test_a_port_that_is_taken_is_named_and_how_to_name_another():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(port)
    assert said.startswith(f"Port {port} cannot be used (")
    assert said.endswith("make serve PORT=8001\n")


@pytest.mark.parametrize("port", ["http", "70000", "-1"])
def test_what_is_no_port_is_named(port):
    assert refused(port).startswith(f"Port {port} cannot be used (")


@pytest.mark.book
def test_the_pages_are_served_until_it_is_interrupted():
    server = subprocess.Popen(
        [sys.executable, SERVE, "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    address = server.stdout.readline().strip()
    try:
        page = urllib.request.urlopen(f"{address}book/intro.html").read()
        assert page == (ROOT / "_build/html/book/intro.html").read_bytes()
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate()
    assert server.returncode == 0
