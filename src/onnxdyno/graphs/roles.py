"""What a dimension means, when the graph does not say: by the names people give, then by position."""

import re

from onnxdyno.domain.axes import Role
from onnxdyno.graphs.declared import Declared

NAME_WEIGHT = 4
"""Below a spatial use (6) and a recurrent or attention use (8): names are trusted after the graph."""

_NAMES: tuple[tuple[str, Role, int], ...] = (
    (r"past", Role.PAST, 9),
    (r"batch|^(n|b|bs|bsz)$", Role.BATCH, NAME_WEIGHT),
    (r"height|^h$|rows", Role.HEIGHT, NAME_WEIGHT),
    (r"width|^w$|cols|columns", Role.WIDTH, NAME_WEIGHT),
    (r"channel|^c$", Role.CHANNELS, NAME_WEIGHT),
    (r"time|frame|samples|audio|wave", Role.TIME, 7),
    (r"seq|len|token", Role.SEQUENCE, 7),
    (r"^[slt]$", Role.SEQUENCE, NAME_WEIGHT),
)
_WAVE = re.compile(r"wave|audio|speech|signal|pcm", re.IGNORECASE)
_STATE = re.compile(r"^(h|c|hn|cn|h_?0|c_?0|h_?in|c_?in)$|state|hidden|cell", re.IGNORECASE)
_CACHE = re.compile(r"past|cache", re.IGNORECASE)
_COLOURS = (1, 3, 4)
_TOKENS = ("int32", "int64", "bool")

_B, _H, _W, _C, _S, _O = Role.BATCH, Role.HEIGHT, Role.WIDTH, Role.CHANNELS, Role.SEQUENCE, Role.OTHER


def named_role(symbol: str) -> tuple[Role, int] | None:
    """(role, weight) that a symbol's name suggests."""
    return next(((role, weight) for pattern, role, weight in _NAMES if re.search(pattern, symbol.lower())), None)


def is_cache(value: Declared) -> bool:
    """Whether an input carries keys and values of earlier tokens."""
    return _CACHE.search(value.name) is not None and len(value.dims or ()) >= 3


def positional_roles(value: Declared) -> tuple[Role, ...]:
    """The usual role of each dimension of an input of this rank and type."""
    sizes = tuple(dim.size for dim in value.dims or ())
    is_token = value.dtype.startswith("int") or value.dtype == "bool"
    is_wave = value.dtype.startswith(("float", "bfloat")) and sizes[-1:] == (None,)
    last = _S if is_token else (Role.TIME if is_wave else _O)
    is_last = len(sizes) == 4 and _is_channels_last(sizes)
    usual: dict[int, tuple[Role, ...]] = {
        0: (),
        1: (Role.TIME if _WAVE.search(value.name) else _B,),
        2: (_B, last),
        4: (_B, _O, Role.PAST, _O) if is_cache(value) else ((_B, _H, _W, _C) if is_last else (_B, _C, _H, _W)),
        5: (_B, _C, _O, _H, _W),
    }
    if len(sizes) == 3:
        return _rank3(value, sizes)
    return usual.get(len(sizes), (_B, *([_O] * (len(sizes) - 1))))


def _rank3(value: Declared, sizes: tuple[int | None, ...]) -> tuple[Role, ...]:
    if value.dtype == "uint8" and sizes[2] in _COLOURS:
        return (_H, _W, _C)
    if sizes[0] == 3 and sizes[1] is None and sizes[2] is None:
        return (_C, _H, _W)
    if _STATE.search(value.name) is not None and sizes[0] is not None:
        return (_O, _B, _O)
    return (_B, _S if sizes[1] is None or value.dtype in _TOKENS else _O, _O)


def _is_channels_last(sizes: tuple[int | None, ...]) -> bool:
    """A last dimension of 1, 3 or 4 that is smaller than what stands where height and width would."""
    last = sizes[3]
    return last in _COLOURS and sizes[1] not in _COLOURS and all(s is None or s > last for s in sizes[1:3])
