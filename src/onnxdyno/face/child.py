"""One launch of a callable: `python -m onnxdyno.face.child --answer-to FD --parent PID`, an order on standard input."""

import argparse
import json
import os
import sys
from functools import partial

import msgspec

from onnxdyno.adapters.confinement import die_with
from onnxdyno.face.fresh import resolve
from onnxdyno.face.inprocess import Order, measure_here
from onnxdyno.face.surroundings import this_process


def main() -> None:
    """Import the target, measure it, answer."""
    parser = argparse.ArgumentParser(prog="onnxdyno.face.child", description=__doc__)
    parser.add_argument("--answer-to", type=int, required=True, metavar="FD")
    parser.add_argument("--parent", type=int, required=True, metavar="PID")
    arguments = parser.parse_args()
    if not die_with(arguments.parent):
        sys.exit("the process that asked for this measurement is gone")
    asked = json.loads(sys.stdin.buffer.read())
    sys.path[:] = asked["sys_path"]
    order = Order(
        call=partial(resolve(asked["target"]), *asked["args"], **asked["kwargs"]),
        sync=None if asked["sync"] is None else resolve(asked["sync"]),
        budget_ns=asked["budget_ns"],
        launches=asked["launches"],
    )
    with os.fdopen(arguments.answer_to, "wb") as answer:
        answer.write(msgspec.json.encode(measure_here(order, this_process())))


if __name__ == "__main__":
    main()
