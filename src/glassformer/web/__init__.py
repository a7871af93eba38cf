"""What every HTTP server of ours needs: who may ask, how long a request may take to come, JSON that is always valid."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # this machine alone
