"""racer-chat: its options, one answer on stdout, the report of --doctor. Importing it costs nothing."""


def main(argv: list[str] | None = None) -> int:
    """Run racer-chat; returns the exit code."""
    from racer_local.cli import program

    return program.main(argv)
