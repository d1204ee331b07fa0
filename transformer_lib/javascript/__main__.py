"""``python -m transformer_lib.javascript MODEL FILE`` packs a model for the browser."""

import sys

from transformer_lib.javascript.weights import write_script

if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m transformer_lib.javascript MODEL FILE")
    try:
        write_script(*sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(f"The model was not packed: {error}")
