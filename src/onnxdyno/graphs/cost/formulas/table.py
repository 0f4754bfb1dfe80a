"""The one look-up: operator -> FLOPs of one execution."""

from onnxdyno.domain.text import printable
from onnxdyno.graphs.cost.formulas import attention, elementwise, moving, products, recurrent, reductions
from onnxdyno.graphs.cost.inference import DOMAINS
from onnxdyno.graphs.cost.operands import Formula, Operands
from onnxdyno.graphs.cost.values import MOST_COUNT, NotCounted

FORMULAS: dict[str, Formula] = {
    **moving.FORMULAS,
    **elementwise.FORMULAS,
    **reductions.FORMULAS,
    **products.FORMULAS,
    **recurrent.FORMULAS,
    **attention.FORMULAS,
}


def flops(op: Operands) -> int:
    """FLOPs of one execution of a node. Raises `NotCounted` with the reason: no formula, or a shape is unknown."""
    op_type = op.node.op_type
    formula = FORMULAS.get(op_type) if op.node.domain in DOMAINS else None
    if formula is None:
        raise NotCounted(moving.DECIDED_BY_DATA.get(op_type) or f"no formula for {printable(op_type)}")
    try:
        counted = formula(op)
    except (ValueError, LookupError, ArithmeticError) as error:
        raise NotCounted("its operands do not have the ranks that its formula expects") from error
    if not 0 <= counted <= MOST_COUNT:
        raise NotCounted(f"more than {MOST_COUNT} operations")
    return counted
