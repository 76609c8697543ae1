"""`python -m racer_local.cli` is racer-chat."""

import sys

from racer_local.cli import main

sys.exit(main())
