"""Serve the built pages on this computer alone: `python scripts/serve.py PORT`."""

import functools
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(port: str) -> None:
    """Serve until Ctrl-C."""
    handler = functools.partial(
        SimpleHTTPRequestHandler, directory=ROOT / "_build" / "html"
    )
    try:
        server = ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
    except (OSError, OverflowError, ValueError) as error:
        sys.exit(
            f"Port {port} cannot be used ({error}). Name another: make serve PORT=8001"
        )
    with server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print()
