"""LSTM, GRU, RNN: two products a step and direction, and what every hidden unit computes besides."""

from onnxdyno.graphs.cost.formulas.products import FLOPS_PER_MAC
from onnxdyno.graphs.cost.operands import Formula, Operands
from onnxdyno.graphs.cost.values import NotCounted

_SIGMOID = 4
_LSTM_UNIT = 3 * _SIGMOID + 2 + 4
"""Three sigmoids, two tanh, c = f c + i g, h = o tanh(c)."""

_GRU_UNIT = 2 * _SIGMOID + 1 + 5
"""Two sigmoids, one tanh, r h, (1 - z) n + z h."""

_RNN_UNIT = 1


def recurrent(gates: int, per_unit: int) -> Formula:
    """Input (time, batch, input) or batch first, recurrence weights (directions, gates × hidden, hidden)."""

    def formula(op: Operands) -> int:
        x, recurrence = op.shape(0), op.shape(2)
        if len(x) != 3 or len(recurrence) != 3:
            raise NotCounted("input and recurrence weights must have rank 3")
        hidden = op.integer("hidden_size") or min(recurrence[1:])
        steps = x[0] * x[1]
        products = FLOPS_PER_MAC * gates * hidden * (x[2] + hidden)
        return steps * recurrence[0] * (products + per_unit * hidden)

    return formula


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("LSTM", "DynamicQuantizeLSTM"), recurrent(4, _LSTM_UNIT)),
    "GRU": recurrent(3, _GRU_UNIT),
    "RNN": recurrent(1, _RNN_UNIT),
}
