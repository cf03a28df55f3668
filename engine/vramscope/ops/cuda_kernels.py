"""Which operators have a kernel on the CUDA device: what a plan for it says of each node."""

from __future__ import annotations

_STANDARD = [
    "Abs",
    "Add",
    "And",
    "Atan",
    "Attention",
    "Cast",
    "CastLike",
    "Ceil",
    "Clip",
    "Concat",
    "ConstantOfShape",
    "Cos",
    "CumSum",
    "DequantizeLinear",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "GatherND",
    "Gelu",
    "Gemm",
    "Greater",
    "GreaterOrEqual",
    "HardSwish",
    "Identity",
    "IsNaN",
    "LayerNormalization",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "LogSoftmax",
    "MatMul",
    "Max",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "RMSNormalization",
    "Range",
    "Reciprocal",
    "ReduceL1",
    "ReduceL2",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Relu",
    "Reshape",
    "RotaryEmbedding",
    "Round",
    "Shape",
    "Sigmoid",
    "Sign",
    "SimplifiedLayerNormalization",
    "Sin",
    "Size",
    "Slice",
    "Softmax",
    "Softplus",
    "Softsign",
    "Split",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Sum",
    "Swish",
    "Tan",
    "Tanh",
    "TensorScatter",
    "Transpose",
    "Unsqueeze",
    "Where",
    "Xor",
]
"""Of the default domain."""

_CONTRIB = [
    "BiasGelu",
    "FastGelu",
    "GatherBlockQuantized",
    "Gelu",
    "GroupQueryAttention",
    "MatMulNBits",
    "MoE",
    "QMoE",
    "QuickGelu",
    "RotaryEmbedding",
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
]
"""Of com.microsoft."""

_RUNTIME = ["BlockQuantizedMatMul", "BlockQuantizedMoE"]
"""Of pkg.nxrt."""

CUDA_KERNELS: frozenset[tuple[str, str]] = frozenset(
    {("", name) for name in _STANDARD}
    | {("com.microsoft", name) for name in _CONTRIB}
    | {("pkg.nxrt", name) for name in _RUNTIME}
)
"""By (domain, operator); a test holds it equal to the device's table. All others run on the host there."""


def runs_on_cuda(domain: str, operator: str) -> bool:
    """Whether the CUDA device has a kernel for an operator (some of its forms may still run on the host)."""
    return (domain, operator) in CUDA_KERNELS
