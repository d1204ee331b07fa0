"""Where ``python -m transformer_lib.translation`` begins, before torch is there."""

import os
import signal
import sys

STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


def main() -> int:
    """Run the command, whichever streams are closed, and Ctrl-C may come at once.

    Returns:
        Its exit status.
    """
    closed = [name for name in STREAMS if getattr(sys, name) is None]
    for name in closed:  # or the next file to be opened would become the stream
        nowhere = open(os.devnull, STREAMS[name], errors="replace")  # noqa: SIM115
        setattr(sys, name, nowhere)
    if "stdout" in closed:
        print("error: the standard output must be open, got >&-", file=sys.stderr)
        return 2

    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # its exception, torch's import may swallow
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from transformer_lib.translation import command  # takes seconds, for torch

    signal.signal(signal.SIGINT, usual)
    return command.main()


if __name__ == "__main__":
    sys.exit(main())
