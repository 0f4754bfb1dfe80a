"""A bounded fuzz campaign on reading: `python benchmarks/fuzz_reading.py --minutes 10 [--seed N] FOLDER|FILE ...`.

Models are mutated byte by byte and, since most of that no longer parses, field by field (ops, names, shapes, order,
attributes, nesting). Everything that looks at a file before it runs is called: load, signature, plan, first feeds,
rebatch, with `--cost` the cost. An `OnnxdynoError` with one printable line is right; any other exception, a death, or
more than 10 s of processor time is a find: the file is kept, and the exit status is 1.
"""

import argparse
import hashlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from onnxdyno.domain.axes import AxisSizes
from onnxdyno.domain.devices import Device, DeviceKind
from onnxdyno.domain.errors import OnnxdynoError
from onnxdyno.domain.models import LocalModel, ModelRef, Signature
from onnxdyno.domain.plan import BenchmarkSpec
from onnxdyno.graphs.constraints import conclude, next_probe
from onnxdyno.graphs.materialise import dim_size, materialise
from onnxdyno.graphs.reading import load, open_model
from onnxdyno.graphs.rebatch import rebatch
from onnxdyno.graphs.signature import read_signature
from onnxdyno.planning import expand

HANG_S = 10.0
MOST_BYTES = 200_000
MOST_FEED_BYTES = 1 << 24
DEVICE = Device(id="c", kind=DeviceKind.CPU, name="c", device_class="c", memory_bytes=None, cores=(0,), threads=1)
OPS = (
    "Conv MatMul Gemm Reshape Shape Gather Concat Slice Transpose Unsqueeze Squeeze Expand Tile Range Where Equal "
    "Split Flatten LSTM GRU If Loop Scan Constant ConstantOfShape Resize Pad ReduceMean Einsum Add Relu OneHot Cast "
    "Attention QLinearConv DequantizeLinear TopK NonMaxSuppression LayerNormalization Size MaxPool ConvTranspose"
).split()
NUMBERS = (0, 1, -1, 2, 3, 7, 64, 255, 2**31 - 1, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63), 10**6)
NAMES = ("", "x", "a\nb", "\x1b[31m", "../x", "N + M", "a" * 5000, "<b>", "past_sequence_length + sequence_length", "é")


def small(path: Path) -> bytes:
    """A model without its large weights (named external), so that mutations meet the graph."""
    content = path.read_bytes()
    if len(content) <= MOST_BYTES:
        return content
    model = open_model(path)
    for graph_tensor in model.graph.initializer:
        if len(graph_tensor.raw_data) > 1_000:
            graph_tensor.ClearField("raw_data")
            graph_tensor.data_location = TensorProto.EXTERNAL
            graph_tensor.external_data.add(key="location", value="w.bin")
    for node in model.graph.node:
        for attribute in node.attribute:
            if len(attribute.t.raw_data) > 1_000:
                attribute.t.ClearField("raw_data")
                attribute.t.data_location = TensorProto.EXTERNAL
                attribute.t.external_data.add(key="location", value="w.bin")
    made: bytes = model.SerializeToString()
    return made


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    """Up to eight edits: flips, insertions, deletions, repeats, and a cut now and then."""
    body = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, kind = rng.randrange(len(body)), rng.random()
        if kind < 0.55:
            body[at] = rng.randrange(256)
        elif kind < 0.7:
            body[at:at] = rng.randbytes(rng.randint(1, 6))
        elif kind < 0.85:
            del body[at : at + rng.randint(1, 8)]
        else:
            body[at:at] = body[at : at + rng.randint(1, 200)]
        if not body:
            return b"\0"
    return bytes(body[: rng.randrange(1, len(body))] if rng.random() < 0.03 else body)


def mutate_fields(content: bytes, rng: random.Random) -> bytes:
    """Up to six changes of the parsed model; the result parses."""
    model = ModelProto()
    try:
        model.ParseFromString(content)
        for _ in range(rng.randint(1, 6)):
            rng.choice(EDITS)(model, rng)
        made: bytes = model.SerializeToString()
    except (DecodeError, EncodeError, ValueError, TypeError):
        return content
    return made


def _node(model: ModelProto, rng: random.Random) -> NodeProto:
    found: NodeProto = rng.choice(model.graph.node) if model.graph.node else model.graph.node.add(op_type="Relu")
    return found


def _change_op(model: ModelProto, rng: random.Random) -> None:
    _node(model, rng).op_type = rng.choice(OPS)


def _rewire(model: ModelProto, rng: random.Random) -> None:
    node, other = _node(model, rng), _node(model, rng)
    names = [*other.output, *other.input, *(t.name for t in model.graph.initializer[:20]), rng.choice(NAMES)]
    if node.input and rng.random() < 0.8:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    else:
        node.input.append(rng.choice(names))


def _rename(model: ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    node.name = rng.choice(NAMES)
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice([*NAMES, *_node(model, rng).output])


def _drop_or_double(model: ModelProto, rng: random.Random) -> None:
    nodes = model.graph.node
    if len(nodes) > 1 and rng.random() < 0.5:
        del nodes[rng.randrange(len(nodes))]
    elif nodes:
        nodes.add().CopyFrom(rng.choice(nodes))


def _change_dims(model: ModelProto, rng: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    shape = rng.choice(values).type.tensor_type.shape
    dim = rng.choice(shape.dim) if shape.dim and rng.random() < 0.7 else shape.dim.add()
    dim.Clear()
    if rng.random() < 0.5:
        dim.dim_value = rng.choice(NUMBERS)
    else:
        dim.dim_param = rng.choice(NAMES)


def _change_type(model: ModelProto, rng: random.Random) -> None:
    if model.graph.input:
        rng.choice(model.graph.input).type.tensor_type.elem_type = rng.randrange(0, 30)


def _change_tensor(model: ModelProto, rng: random.Random) -> None:
    if not model.graph.initializer:
        return
    tensor = rng.choice(model.graph.initializer)
    kind = rng.random()
    if kind < 0.4 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
    elif kind < 0.6:
        tensor.dims.append(rng.choice(NUMBERS))
    elif kind < 0.8:
        tensor.data_type = rng.randrange(0, 30)
    else:
        tensor.name = rng.choice(NAMES)


def _change_attribute(model: ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if not node.attribute:
        node.attribute.add(name=rng.choice(("axis", "perm", "axes", "to", "group")), type=AttributeProto.INT)
    attribute = rng.choice(node.attribute)
    kind = rng.random()
    if kind < 0.4:
        attribute.i = rng.choice(NUMBERS)
    elif kind < 0.7:
        attribute.ints.extend(rng.choice(NUMBERS) for _ in range(rng.randint(1, 4)))
    elif kind < 0.85:
        attribute.s = rng.randbytes(rng.randint(0, 8))
    else:
        attribute.name = rng.choice(("axis", "perm", "axes", "equation", "value", "start", "end", "layout"))


def _nest(model: ModelProto, rng: random.Random) -> None:
    if model.ByteSize() > MOST_BYTES:
        return
    node = _node(model, rng)
    attribute = node.attribute.add(name=rng.choice(("then_branch", "else_branch", "body")), type=AttributeProto.GRAPH)
    whole = GraphProto()
    whole.CopyFrom(model.graph)  # a graph copied straight into itself would make protobuf crash
    attribute.g.CopyFrom(whole)


def _make_function(model: ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    function = model.functions.add(name=node.op_type, domain=node.domain)
    function.input.extend(node.input)
    function.output.extend(node.output)
    function.node.extend([_node(model, rng), _node(model, rng)])


EDITS: tuple[Callable[[ModelProto, random.Random], None], ...] = (
    _change_op, _rewire, _rename, _drop_or_double, _change_dims, _change_type, _change_tensor, _change_attribute, _nest,
    _make_function,
)  # fmt: skip


def exercise(path: Path, *, with_cost: bool) -> Counter[str]:
    """Everything that looks at a file before it runs; what came of each part. Anything but a typed error is raised."""
    said: Counter[str] = Counter()
    signature: Signature | None = None
    try:
        signature = read_signature(path)
        said["signature read"] += 1
        _look(path, signature, with_cost=with_cost)
        said["planned"] += 1
    except OnnxdynoError as error:
        _check_line(error)
        said[type(error).__name__] += 1
    for part in (lambda: load(path), lambda: rebatch(path, path.with_name("copy.onnx"))):
        try:
            part()
            said["passed"] += 1
        except OnnxdynoError as error:
            _check_line(error)
            said[type(error).__name__] += 1
    return said


def _look(path: Path, signature: Signature, *, with_cost: bool) -> None:
    local = LocalModel(ref=ModelRef(name=path.name, sha256="0" * 64, size_bytes=1), path=path)
    plan = expand(BenchmarkSpec(), signature, local, DEVICE)
    conclude(signature, [(plan.base.sizes, True)])
    next_probe(signature, [(plan.base.sizes, True)])
    for recipe in signature.recipes:
        _feed(recipe.name, signature, plan.base.sizes)
    if with_cost:
        from onnxdyno.graphs.cost import cost_at

        cost_at(path, signature, plan.base.sizes)


def _feed(name: str, signature: Signature, sizes: AxisSizes) -> None:
    recipe = next(each for each in signature.recipes if each.name == name)
    elements = 16
    for dim in recipe.dims:
        elements *= max(1, dim_size(dim, sizes))
    if elements <= MOST_FEED_BYTES:
        materialise(recipe, sizes, 0)


def _check_line(error: OnnxdynoError) -> None:
    if not str(error).isprintable():
        message = f"not one printable line: {str(error)!r}"
        raise AssertionError(message)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a campaign saw."""

    tries: int = 0
    said: Counter[str] = field(default_factory=Counter)
    finds: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0


def work(seed: int, corpus: list[Path], folder: Path, until: float, *, with_cost: bool) -> Tally:
    """Mutate and read until the time is over; finds are saved under `folder`."""
    rng, tally = random.Random(seed), Tally()  # noqa: S311  mutations, not secrets
    models = [small(path) for path in corpus]
    current = folder / "model.onnx"
    while time.monotonic() < until:
        content = rng.choice(models)
        content = (mutate_bytes if rng.random() < 0.4 else mutate_fields)(content, rng)
        current.write_bytes(content)
        tally.tries += 1
        began = time.process_time()  # not wall time: a busy machine is no hang
        try:
            tally.said.update(exercise(current, with_cost=with_cost))
        except Exception as error:  # noqa: BLE001  the very thing that is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            _save(folder, content, f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}", tally)
        took = time.process_time() - began
        tally.slowest_s = max(tally.slowest_s, took)
        if took > HANG_S:
            _save(folder, content, f"slow: {took:.0f} s", tally)
        print(f"{tally.tries}", flush=True)  # the parent's sign of life
    return tally


def _save(folder: Path, content: bytes, what: str, tally: Tally) -> None:
    if what not in tally.finds:
        (folder / f"find-{hashlib.sha256(content).hexdigest()[:12]}.onnx").write_bytes(content)
        print(f"FIND {what}", file=sys.stderr, flush=True)
    tally.finds[what] += 1


def campaign(minutes: float, seed: int, corpus: list[Path], folder: Path, *, with_cost: bool) -> int:
    """Workers one after another, each restarted when it dies or hangs; the exit status."""
    until, finds, tries, lives = time.monotonic() + 60 * minutes, 0, 0, 0
    while time.monotonic() < until:
        place = folder / f"life-{lives}"
        place.mkdir(parents=True)
        command = [sys.executable, __file__, "--worker", str(place), "--seed", str(seed + lives)]
        command += ["--minutes", str((until - time.monotonic()) / 60), *(["--cost"] if with_cost else [])]
        command += [str(path) for path in corpus]
        with (place / "said.txt").open("w") as said:
            worker = subprocess.Popen(command, stdout=said, stderr=None)
            is_lost = _watch(worker, place / "said.txt", until)
        if is_lost:
            finds += 1
            print(f"FIND the worker was lost (exit {worker.returncode}) in {place}", flush=True)
        lines = (place / "said.txt").read_text().splitlines()
        tries += sum(1 for line in lines if line.isdecimal())
        finds += len(list(place.glob("find-*.onnx")))
        print("\n".join(line for line in lines if not line.isdecimal()), flush=True)
        lives += 1
    print(f"{tries:,} mutated files in {minutes:g} minutes, seed {seed}: {finds} finds", flush=True)
    return int(finds > 0)


def _watch(worker: "subprocess.Popen[bytes]", said: Path, until: float) -> bool:
    """Wait for a worker; whether it died, or said nothing for so long that it hangs (and was ended)."""
    size, heard_s, process = 0, 0.0, psutil.Process(worker.pid)
    while worker.poll() is None:
        time.sleep(0.5)
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        used_s = times.user + times.system
        if said.stat().st_size != size:
            size, heard_s = said.stat().st_size, used_s
        if used_s - heard_s > 6 * HANG_S or time.monotonic() > until + 60 * HANG_S:
            worker.kill()
            worker.wait()
            return True
    return worker.returncode != 0


def main() -> int:
    """Run a campaign, or one worker of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cost", action="store_true", help="also count the cost at the first point")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help="where finds are kept (default: a new temporary folder)")
    given = parser.parse_args()
    corpus = sorted(path for each in given.corpus for path in (each.glob("*.onnx") if each.is_dir() else [each]))
    if given.worker is not None:
        until = time.monotonic() + 60 * given.minutes
        usable = [path for path in corpus if _is_model(path)]
        tally = work(given.seed, usable, given.worker, until, with_cost=given.cost)
        print(f"tries {tally.tries}, slowest {tally.slowest_s:.2f} s, {dict(tally.said.most_common(8))}")
        print(f"finds {dict(tally.finds)}" if tally.finds else "no finds")
        return 0
    folder = given.keep or Path(tempfile.mkdtemp(prefix="onnxdyno-fuzz-"))
    return campaign(given.minutes, given.seed, corpus, folder, with_cost=given.cost)


def _is_model(path: Path) -> bool:
    try:
        open_model(path)
    except OnnxdynoError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
