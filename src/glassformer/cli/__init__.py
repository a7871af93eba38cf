"""The command line: one function per command, heavy imports inside."""
