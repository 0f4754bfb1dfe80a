"""Ops that move, look up, retype or make elements: no FLOPs, or few; and those whose work only the data decides."""

from onnxdyno.graphs.cost.operands import Formula, Operands, at
from onnxdyno.graphs.cost.values import NotCounted

FREE = frozenset(
    (
        "Identity Reshape Flatten Squeeze Unsqueeze Transpose Expand Tile Concat Split Slice Pad Gather GatherElements "
        "GatherND OneHot Where Trilu Compress NonZero ReverseSequence DepthToSpace SpaceToDepth MaxUnpool Dropout "
        "BiasDropout CenterCropPad Col2Im ImageDecoder Shape Size Constant ConstantOfShape EyeLike Cast CastLike "
        "BitCast "
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConcat QLinearWhere GatherBlockQuantized "
        "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence "
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement TensorScatter "
        "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial "
        "StringNormalizer StringConcat StringSplit RegexFullMatch TfIdfVectorizer LabelEncoder OneHotEncoder "
        "DictVectorizer CategoryMapper CastMap ZipMap FeatureVectorizer ArrayFeatureExtractor"
    ).split()
)
"""Data movement, type changes (quantising included), look-ups, random draws and texts: no arithmetic is counted."""

DECIDED_BY_DATA: dict[str, str] = {
    "NonMaxSuppression": "how many boxes are compared depends on their scores",
    "Unique": "the number of comparisons of a sort depends on the data",
    "MaxRoiPool": "the regions depend on data",
    "TreeEnsemble": "the path through each tree depends on data",
    "TreeEnsembleClassifier": "the path through each tree depends on data",
    "TreeEnsembleRegressor": "the path through each tree depends on data",
}


def top_k(op: Operands) -> int:
    """A selection compares each element once; a full sort would compare more."""
    return op.elements(0)


def scatter(op: Operands) -> int:
    """One operation for each update if updates are combined, none if they overwrite."""
    return op.elements(2) if op.text("reduction", "none") != "none" else 0


def _taps(mode: str, dimensions: int) -> int:
    """Elements that are weighted and summed for one element of the result."""
    return int({"cubic": 4, "bicubic": 4}.get(mode, 2) ** dimensions)


def resize(op: Operands) -> int:
    """Linear: 2 taps for each dimension that changes, cubic: 4; a MAC each. Nearest only copies."""
    mode = op.text("mode", "nearest")
    before, after = op.shape(0), op.made()
    changed = sum(b != a for b, a in zip(before, after, strict=True))
    return 0 if mode == "nearest" or not changed else 2 * _taps(mode, changed) * op.made_elements()


def grid_sample(op: Operands) -> int:
    """As Resize, in every spatial dimension."""
    mode = op.text("mode", "linear")
    return 0 if mode == "nearest" else 2 * _taps(mode, max(1, len(op.shape(0)) - 2)) * op.made_elements()


def roi_align(op: Operands) -> int:
    """Bilinear samples (4 taps, a MAC each) in a grid for every bin, then their average or maximum."""
    samples = op.integer("sampling_ratio")
    if samples < 1:
        raise NotCounted("with sampling_ratio 0 the number of samples depends on the regions")
    return op.made_elements() * samples**2 * (2 * 4 + 1)


def affine_grid(op: Operands) -> int:
    """A small matrix times every position."""
    return 2 * op.made_elements() * (at(op.made(), -1) + 1)


def fourier(op: Operands) -> int:
    """5 n log2 n for each signal, the usual count for a radix-2 FFT (fftw.org/speed)."""
    axis = op.known(2)[0] if op.has(2) else op.integer("axis", 1 if "axis" in op.attributes or op.has(1) else -2)
    length = at(op.shape(0), axis)
    samples = op.elements(0) // max(1, at(op.shape(0), -1))
    return 5 * samples * max(0, length - 1).bit_length()


def windowed_fourier(op: Operands) -> int:
    """STFT: output (batch, frames, bins, 2): window and FFT of every frame."""
    batch, frames, bins, _ = op.made()
    length = bins if not op.integer("onesided", 1) else 2 * (bins - 1)
    return batch * frames * length * (1 + 5 * max(0, length - 1).bit_length())


def window(op: Operands) -> int:
    """A cosine or two for every sample."""
    return 4 * op.made_elements()


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(FREE, lambda _: 0),
    "TopK": top_k,
    **dict.fromkeys(("ScatterND", "ScatterElements", "Scatter"), scatter),
    **dict.fromkeys(("Resize", "Upsample"), resize),
    "GridSample": grid_sample,
    "RoiAlign": roi_align,
    "AffineGrid": affine_grid,
    "Range": lambda op: 2 * op.made_elements(),
    "DFT": fourier,
    "STFT": windowed_fourier,
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"), window),
}
