"""`python -m onnxdyno.cli`."""

from onnxdyno.cli import main

main()
