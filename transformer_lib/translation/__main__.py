"""``python -m transformer_lib.translation`` trains, measures and uses a translator."""

import sys
from contextlib import suppress

from transformer_lib.translation.command import main

if __name__ == "__main__":
    status = main()
    if status:
        with suppress(OSError):  # or Python would try to write the rest again
            sys.stdout.close()
    sys.exit(status)
