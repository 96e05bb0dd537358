"""Prints what captures say: see the package."""

import json
import sys

from . import Refused, read


def main() -> int:
    status = 0
    for name in sys.argv[1:]:
        try:
            lines = read(name).lines()
        except Refused as refused:
            lines = [{"refused": refused.kind}]
            status = 1
        for line in lines:
            print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
    return status


if __name__ == "__main__":
    sys.exit(main())
