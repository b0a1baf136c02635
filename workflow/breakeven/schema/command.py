"""How every entry point ends: a user's mistake is one message and exit code 2, never a traceback."""

import functools
import sys
from collections.abc import Callable

from breakeven.schema.errors import UserError


def command(main: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(main)
    def wrapped() -> None:
        try:
            main()
        except UserError as error:
            print(f"breakeven: {error}", file=sys.stderr)
            raise SystemExit(2) from None

    return wrapped
