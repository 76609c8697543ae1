"""A lock on an open file, against a second program. The system takes it away when the process ends, however it ends."""

import os
import sys
from typing import IO, Any

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30
    """The byte that is locked: far behind the end, since what is locked cannot be read by others."""

    def try_lock(file: IO[Any]) -> bool:
        """Lock an open file until it is closed; False where another holds it."""
        at = os.lseek(file.fileno(), 0, os.SEEK_CUR)
        os.lseek(file.fileno(), FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(file.fileno(), at, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(file: IO[Any]) -> bool:
        """Lock an open file until it is closed; False where another holds it."""
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # this file system has no locks
        return True
