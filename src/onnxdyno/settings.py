"""What people write (spec files, sidecars, flow parameters) made into a `BenchmarkSpec`, or refused in one line."""

import re
import zipfile
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from onnxdyno.domain.errors import SpecError
from onnxdyno.domain.plan import BenchmarkSpec, InputRule, Variant
from onnxdyno.domain.sessions import CudnnSearch
from onnxdyno.domain.text import printable

MOST_SPEC_BYTES = 64 * 1024
MOST_SIZE = 2**31
_MOST_VALUES = 64
_MOST_DEPTH = 16
_OPENING = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockMappingStartToken,
    yaml.BlockSequenceStartToken,
)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)

Layer = tuple[str, Mapping[str, object]]
"""(where it comes from, what it says); a later layer wins key by key."""


def _as_list(value: object) -> object:
    """One value stands for a list of one; `1,2,4` for three."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _as_resolution(value: object) -> object:
    """`320x240` (height x width), `320`, or [320, 240]."""
    if isinstance(value, str):
        sides = value.lower().replace("×", "x").split("x")
        if len(sides) not in (1, 2) or not all(side.strip().isdecimal() for side in sides):
            msg = "a resolution is HEIGHTxWIDTH such as 320x320"
            raise ValueError(msg)
        numbers = [int(side) for side in sides]
        return (numbers[0], numbers[-1])
    return (value, value) if isinstance(value, int) and not isinstance(value, bool) else value


def _whole(value: object) -> object:
    if isinstance(value, bool):
        msg = "a size is a whole number"
        raise ValueError(msg)  # pydantic turns only ValueError into a violation
    return value


_Size = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=MOST_SIZE)]
_AxisSize = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=MOST_SIZE)]
_Resolution = Annotated[tuple[_Size, _Size], BeforeValidator(_as_resolution)]
_Sizes = Annotated[tuple[_Size, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=_MOST_VALUES)]
_AxisSizes = Annotated[tuple[_AxisSize, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=_MOST_VALUES)]
_Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=4096)]
_Counts = Annotated[tuple[_Count, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=_MOST_VALUES)]
_Resolutions = Annotated[
    tuple[_Resolution, ...], BeforeValidator(_as_list), Field(min_length=1, max_length=_MOST_VALUES)
]
_Variants = Annotated[tuple[Variant, ...], BeforeValidator(_as_list), Field(min_length=1)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Input(BaseModel):
    """What a spec says of one input: a value, a range, or a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: _Number | None = None
    low: _Number | None = None
    high: _Number | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _one_of(self) -> "_Input":
        given = (self.value is not None, self.low is not None or self.high is not None, self.file is not None)
        if sum(given) != 1:
            msg = "give exactly one of `value`, `low`/`high`, `file`"
            raise ValueError(msg)
        if self.low is not None and self.high is not None and self.low >= self.high:
            msg = "`low` must be below `high`"
            raise ValueError(msg)
        return self


class _Spec(BaseModel):
    """A spec as written; every key may be left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    batch: _Sizes | None = None
    resolution: _Resolutions | None = None
    sequence: _Sizes | None = None
    axes: dict[str, _AxisSizes] = Field(default_factory=dict)
    inputs: dict[str, _Input] = Field(default_factory=dict)
    variants: _Variants = (Variant.DEVICE,)
    launches: Annotated[int, Field(ge=1, le=100)] = 3
    budget_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60.0
    latency_target_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    threads: _Counts | None = None
    concurrency: _Counts = (1,)
    precision: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    spacing_s: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = 0.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    profile: bool = True
    memory: bool | Literal["full"] = True
    true_minimum: bool = False
    cold: bool = False
    rebatch: bool = False
    spinning: bool = True
    cudnn_search: CudnnSearch = CudnnSearch.EXHAUSTIVE


KEYS = tuple(_Spec.model_fields)
"""Every key that a spec may have."""


def parse_yaml(text: str, source: str) -> dict[str, object]:
    """The mapping in a YAML text (`safe_load`: no tags, at most 64 KiB). An empty text is an empty mapping.

    Raises `SpecError` naming `source`.
    """
    name = printable(source)
    if len(text.encode("utf-8", "replace")) > MOST_SPEC_BYTES:
        raise SpecError(f"{name}: a spec has at most {MOST_SPEC_BYTES:,} bytes; this one is larger.")
    try:
        _refuse_bombs(text, name)
        loaded = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"{name}: not valid YAML: {printable(' '.join(str(error).split()), 160)}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise SpecError(f"{name}: found a {type(loaded).__name__}; expected keys such as `batch: [1, 2, 4]`.")
    return {str(key): value for key, value in loaded.items()}


def _refuse_bombs(text: str, name: str) -> None:
    """Raises `SpecError` for aliases (they multiply) and deep nesting (PyYAML's time grows with its square)."""
    depth = 0
    for token in yaml.scan(text):
        if isinstance(token, (yaml.AliasToken, yaml.AnchorToken)):
            raise SpecError(f"{name}: anchors and aliases are not allowed in a spec. Write the values out.")
        depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
        if depth > _MOST_DEPTH:
            raise SpecError(f"{name}: not valid YAML for a spec: nested more than {_MOST_DEPTH} deep.")


def build_spec(layers: Sequence[Layer], *, folder: Path | None = None) -> BenchmarkSpec:
    """The spec of all layers; of two that give the same key the later wins. A null means: not given.

    `folder` is the model's: files of `inputs` must lie in it. Without it they are taken as given. Raises `SpecError`.
    """
    merged: dict[str, object] = {}
    origin: dict[str, str] = {}
    for source, layer in layers:
        given = {key: value for key, value in layer.items() if value is not None}
        _validate(source, given)
        merged.update(given)
        origin.update(dict.fromkeys(given, source))
    written = _validate(layers[-1][0] if layers else "spec", merged)
    source = origin.get("inputs", "spec")
    return BenchmarkSpec(
        batches=_distinct(written.batch),
        resolutions_px=_distinct(written.resolution),
        sequences=_distinct(written.sequence),
        axes=tuple((name, _distinct(sizes) or ()) for name, sizes in written.axes.items()),
        inputs=tuple(_rule(source, name, rule, folder) for name, rule in written.inputs.items()),
        variants=_distinct(written.variants) or (Variant.DEVICE,),
        launches=written.launches,
        budget_s=written.budget_s,
        latency_target_ms=written.latency_target_ms,
        threads=_distinct(written.threads),
        concurrency=_distinct(written.concurrency) or (1,),
        precision=written.precision,
        spacing_s=written.spacing_s,
        seed=written.seed,
        profile=written.profile,
        memory=bool(written.memory),
        memory_full=written.memory == "full",
        true_minimum=written.true_minimum,
        cold=written.cold,
        rebatch=written.rebatch,
        spinning=written.spinning,
        cudnn_search=written.cudnn_search,
    )


def named_files(source: str, layer: Mapping[str, object]) -> tuple[str, ...]:
    """Files that the inputs of a spec name, relative to the model: what must be fetched beside a model of a store.

    Each once, in order; nothing is looked up. Raises `SpecError`: a wrong spec, or a path that could leave the folder.
    """
    written = _validate(source, {key: value for key, value in layer.items() if value is not None})
    named = [(name, rule.file) for name, rule in written.inputs.items() if rule.file is not None]
    for name, file in named:
        if not _is_beside(file):
            raise _outside(_where(source, name), file)
    return tuple(dict.fromkeys(PurePosixPath(file).as_posix() for _, file in named))


def _is_beside(file: str) -> bool:
    """Whether a path is a plain relative one that cannot leave its folder, before anybody looks."""
    parts = PurePosixPath(file).parts
    is_plain = bool(parts) and not file.startswith("/") and ".." not in parts and "\\" not in file
    return is_plain and file.isprintable() and re.match(r"[A-Za-z]:", file) is None


def _where(source: str, name: str) -> str:
    return f"{printable(source)}: `inputs.{printable(name)}.file`"


def _outside(where: str, file: str) -> SpecError:
    return SpecError(f"{where} is '{printable(file)}': it must lie in the model's folder.")


def _distinct(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(dict.fromkeys(values))


def _validate(source: str, given: Mapping[str, object]) -> _Spec:
    try:
        return _Spec.model_validate(given)
    except ValidationError as error:
        raise SpecError(f"{printable(source)}: {_first(error)}") from error


def _first(error: ValidationError) -> str:
    """The first violation as one line: key, what was found, what was expected, the nearest valid key."""
    violation = error.errors(include_url=False)[0]
    place = [part for part in violation["loc"] if not (isinstance(part, str) and "[" in part)]
    key = printable(".".join(str(part) for part in place), 80)
    if violation["type"] == "extra_forbidden":
        known = KEYS if len(place) == 1 else tuple(_Input.model_fields)
        near = get_close_matches(str(place[-1]), known, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"Valid keys: {', '.join(known)}."
        return f"unknown key `{key}`. {hint}"
    found = printable(repr(violation["input"]), 60)
    expected = printable(violation["msg"].removeprefix("Value error, "), 160)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"`{key}` is {found}: {expected[:1].lower()}{expected[1:]}.{more}"


def _rule(source: str, name: str, written: _Input, folder: Path | None) -> InputRule:
    path = None if written.file is None else str(_entry_file(source, name, written.file, folder))
    return InputRule(name=name, value=written.value, low=written.low, high=written.high, path=path)


def _entry_file(source: str, name: str, file: str, folder: Path | None) -> Path:
    """The `.npz` file of one input, proven to lie in the model's folder and to hold an entry of that name."""
    where = _where(source, name)
    path = Path(file)
    if folder is not None:
        path = (folder / file).resolve() if _is_beside(file) else folder.parent
        if not path.is_relative_to(folder.resolve()):
            raise _outside(where, file)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry.removesuffix(".npy") for entry in archive.namelist()]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SpecError(f"{where}: no `.npz` file at '{printable(file)}'. Write one with `numpy.savez`.") from error
    if name not in entries:
        listed = ", ".join(printable(entry) for entry in entries[:10]) or "nothing"
        raise SpecError(f"{where}: the file holds {listed}; expected an entry named like the input.")
    return path.resolve()
