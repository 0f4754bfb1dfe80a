"""Whether the worker of this container still polls: its own health endpoint says so."""

import sys
import urllib.request

with urllib.request.urlopen("http://127.0.0.1:8080/health", timeout=4) as answer:
    sys.exit(0 if answer.status == 200 else 1)
