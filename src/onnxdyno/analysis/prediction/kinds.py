"""Operators by how they use a device: a class shares one efficiency, because one kernel's luck does not transfer."""

from enum import StrEnum


class OpClass(StrEnum):
    """How a node spends its time."""

    VIEW = "view"
    GEMM = "gemm"
    BATCHED = "batched"
    CONV = "conv"
    ELEMENTWISE = "elementwise"
    NORM = "norm"
    SOFTMAX = "softmax"
    GATHER = "gather"
    COPY = "copy"
    OTHER = "other"


ORDER = tuple(OpClass)
CONTRACTIONS = (OpClass.GEMM, OpClass.BATCHED, OpClass.CONV)
"""Classes that use the matrix units of a dtype; all else runs at the vector rate."""
UNCHECKED = (OpClass.CONV, OpClass.OTHER)
"""Classes that no public profile of ours has: their priors stand, and a prediction that rests on them says so."""

_NAMES = {
    OpClass.VIEW: """noop view reshape squeeze unsqueeze flatten identity shape size constant dropout getitem""",
    OpClass.GEMM: """linear gemm matmul addmm fusedmatmul fusedgemm gemmfastgelu matmulinteger qlinearmatmul qgemm
        fc dense dynamicquantizematmul matmulnbits lstm gru rnn""",
    OpClass.BATCHED: """bmm batchedmatmul baddbmm einsum attention multiheadattention qattention sdpa
        groupqueryattention packedattention""",
    OpClass.CONV: """conv conv1d conv2d conv3d convtranspose fusedconv nhwcconv nhwcfusedconv qlinearconv convinteger
        deformconv""",
    OpClass.ELEMENTWISE: """elem elementwise add sub mul div pow sqrt exp log erf abs neg relu leakyrelu prelu elu gelu
        fastgelu biasgelu quickgelu silu sigmoid tanh clip hardswish hardsigmoid where equal greater less not and or
        cast permute expand quantizelinear dequantizelinear reciprocal floor ceil round sin cos softplus
        mish swish min max mod sum mean concat split slice pad transpose tile copy contiguous""",
    OpClass.NORM: """ln layernorm layernormalization skiplayernormalization simplifiedlayernormalization groupnorm
        rmsnorm
        skipsimplifiedlayernormalization batchnorm batchnormalization instancenormalization groupnormalization
        embedlayernormalization lpnormalization lrn rmsnormalization""",
    OpClass.SOFTMAX: """softmax logsoftmax reducemean reducesum reducemax reducemin reduceprod reducel2 argmax argmin
        globalaveragepool globalmaxpool averagepool maxpool cumsum pool""",
    OpClass.GATHER: """embed embedding gather gatherelements gathernd scatter scatterelements scatternd onehot topk
        nonzero resize upsample nonmaxsuppression gridsample roialign""",
    OpClass.COPY: "memcpyfromhost memcpytohost h2d d2h",
}
_CLASS_OF = {word: op_class for op_class, words in _NAMES.items() for word in words.split()}


def op_class(kind: str) -> OpClass:
    """The class of an operator's name; letters and digits count, case does not; unknown is `OTHER`."""
    return _CLASS_OF.get("".join(mark for mark in kind.casefold() if mark.isalnum()), OpClass.OTHER)
