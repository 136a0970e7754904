"""The seven networks of MultiTree's evaluation, layer by layer.

Rows are those of SCALE-Sim's topology files (MIT license), as in the repository of MultiTree's
authors, with their faults (docs/reference/jobs.md names them), so that results can be compared:
name, height and width of the input, of the filter, channels, filters, stride.
"""

from multitree.sim.jobs.job import JobError
from multitree.sim.jobs.systolic_arrays import HEADER, LayerShape, read_layers

__all__ = ["EVALUATED", "MODELS", "model_layers"]

_ALEXNET = """
Conv1, 224, 224, 11, 11, 3, 96, 4
Conv2, 207, 207, 5, 5, 96, 256, 1
Conv3, 13, 13, 3, 3, 256, 384, 1
Conv4, 13, 13, 3, 3, 384, 384, 1
Conv5, 13, 13, 3, 3, 384, 256, 1
"""

_ALPHAGOZERO = """
Conv, 19, 19, 3, 3, 17, 256, 1
Res_conv1, 19, 19, 3, 3, 256, 256, 1
Res_conv2, 19, 19, 3, 3, 256, 256, 1
ValueHead_conv, 19, 19, 1, 1, 256, 1, 1
ValueHead_FC1, 1, 1, 1, 1, 361, 256, 1
ValueHead_FC2, 1, 1, 1, 1, 256, 1, 1
PolicyHead_Conv, 19, 19, 1, 1, 256, 2, 1
PolidyHead_FC, 1, 1, 1, 1, 722, 362, 1
"""

_RESNET50_TO_STAGE_4 = """
Conv1, 224, 224, 7, 7, 3, 64, 2
CB2a_1, 56, 56, 1, 1, 64, 64, 1
CB2a_2, 56, 56, 3, 3, 64, 64, 1
CB2a_3, 56, 56, 1, 1, 64, 256, 1
CB2s, 56, 56, 1, 1, 64, 256, 1
IB2b_1, 56, 56, 1, 1, 256, 64, 1
IB2b_2, 56, 56, 3, 3, 64, 64, 1
IB2b_3, 56, 56, 1, 1, 64, 256, 1
IB2c_1, 56, 56, 1, 1, 256, 64, 1
IB2c_2, 56, 56, 3, 3, 64, 64, 1
IB2c_3, 56, 56, 1, 1, 64, 256, 1
CB3a_1, 56, 56, 1, 1, 256, 128, 2
CB3a_2, 28, 28, 3, 3, 128, 128, 1
CB3a_3, 28, 28, 1, 1, 128, 512, 1
CB3s, 56, 56, 1, 1, 256, 512, 2
IB3b_1, 28, 28, 1, 1, 512, 128, 1
IB3b_2, 28, 28, 3, 3, 128, 128, 1
IB3b_3, 28, 28, 1, 1, 128, 512, 1
IB3c_1, 28, 28, 1, 1, 512, 128, 1
IB3c_2, 28, 28, 3, 3, 128, 128, 1
IB3c_3, 28, 28, 1, 1, 128, 512, 1
IB3d_1, 28, 28, 1, 1, 512, 128, 1
IB3d_2, 28, 28, 3, 3, 128, 128, 1
IB3d_3, 28, 28, 1, 1, 128, 512, 1
CB4a_1, 28, 28, 1, 1, 512, 256, 2
CB4a_2, 14, 14, 3, 3, 256, 256, 1
CB4a_3, 14, 14, 1, 1, 256, 1024, 1
CB4s, 28, 28, 1, 1, 512, 1024, 2
IB4b_1, 14, 14, 1, 1, 1024, 256, 1
IB4b_2, 14, 14, 3, 3, 256, 256, 1
IB4b_3, 14, 14, 1, 1, 256, 1024, 1
IB4c_1, 14, 14, 1, 1, 1024, 256, 1
IB4c_2, 14, 14, 3, 3, 256, 256, 1
IB4c_3, 14, 14, 1, 1, 256, 1024, 1
IB4d_1, 14, 14, 1, 1, 1024, 256, 1
IB4d_2, 14, 14, 3, 3, 256, 256, 1
IB4d_3, 14, 14, 1, 1, 256, 1024, 1
IB4e_1, 14, 14, 1, 1, 1024, 256, 1
IB4e_2, 14, 14, 3, 3, 256, 256, 1
IB4e_3, 14, 14, 1, 1, 256, 1024, 1
IB4f_1, 14, 14, 1, 1, 1024, 256, 1
IB4f_2, 14, 14, 3, 3, 256, 256, 1
IB4f_3, 14, 14, 1, 1, 256, 1024, 1
"""

_RESNET50_STAGE_5 = """
CB5a_1, 14, 14, 1, 1, 1024, 512, 2
CB5a_2, 7, 7, 3, 3, 512, 512, 1
CB5a_3, 7, 7, 1, 1, 512, 2048, 1
CB5s, 14, 14, 1, 1, 1024, 2048, 2
IB5b_1, 7, 7, 1, 1, 2048, 512, 1
IB5b_2, 7, 7, 3, 3, 512, 512, 1
IB5b_3, 7, 7, 1, 1, 512, 2048, 1
IB5c_1, 7, 7, 1, 1, 2048, 512, 1
IB5c_2, 7, 7, 3, 3, 512, 512, 1
IB5c_3, 7, 7, 1, 1, 512, 2048, 1
FC6, 1, 1, 1, 1, 2048, 1000, 1
"""

_REGION_PROPOSALS = """
RPN_Conv1, 14, 14, 3, 3, 1024, 512, 1
RPN_Conv_bbox, 14, 14, 1, 1, 512, 36, 1
RPN_Conv3_cls, 14, 14, 1, 1, 512, 18, 1
"""

_GOOGLENET = """
Conv1, 224, 224, 7, 7, 3, 64, 2
Conv2red, 56, 56, 1, 1, 64, 64, 1
Conv2, 56, 56, 3, 3, 64, 192, 1
Inc3a_1x1, 28, 28, 1, 1, 192, 64, 1
Inc3a_3x3red, 28, 28, 1, 1, 192, 96, 1
Inc3a_3x3, 28, 28, 3, 3, 96, 128, 1
Inc3a_5x5red, 28, 28, 1, 1, 192, 16, 1
Inc3a_5x5, 28, 28, 5, 5, 16, 32, 1
Inc3a_pp, 28, 28, 1, 1, 192, 32, 1
Inc3b_1x1, 28, 28, 1, 1, 256, 128, 1
Inc3b_3x3red, 28, 28, 1, 1, 256, 128, 1
Inc3b_3x3, 28, 28, 3, 3, 128, 192, 1
Inc3b_5x5red, 28, 28, 1, 1, 256, 32, 1
Inc3b_5x5, 28, 28, 5, 5, 32, 96, 1
Inc3b_pp, 28, 28, 1, 1, 256, 64, 1
Inc4a_1x1, 14, 14, 1, 1, 480, 192, 1
Inc4a_3x3red, 14, 14, 1, 1, 480, 96, 1
Inc4a_3x3, 14, 14, 3, 3, 96, 208, 1
Inc4a_5x5red, 14, 14, 1, 1, 480, 16, 1
Inc4a_5x5, 14, 14, 5, 5, 16, 48, 1
Inc4a_pp, 14, 14, 1, 1, 480, 64, 1
Inc4b_1x1, 14, 14, 1, 1, 512, 160, 1
Inc4b_3x3red, 14, 14, 1, 1, 512, 112, 1
Inc4b_3x3, 14, 14, 3, 3, 112, 224, 1
Inc4b_5x5red, 14, 14, 1, 1, 512, 24, 1
Inc4b_5x5, 14, 14, 5, 5, 24, 64, 1
Inc4b_pp, 14, 14, 1, 1, 512, 64, 1
Inc4c_1x1, 14, 14, 1, 1, 512, 128, 1
Inc4c_3x3red, 14, 14, 1, 1, 512, 128, 1
Inc4c_3x3, 14, 14, 3, 3, 128, 256, 1
Inc4c_5x5red, 14, 14, 1, 1, 512, 24, 1
Inc4c_5x5, 14, 14, 1, 1, 24, 64, 1
Inc4c_pp, 14, 14, 1, 1, 512, 64, 1
Inc4d_1x1, 14, 14, 1, 1, 512, 112, 1
Inc4d_3x3red, 14, 14, 1, 1, 512, 144, 1
Inc4d_3x3, 14, 14, 3, 3, 144, 288, 1
Inc4d_5x5red, 14, 14, 1, 1, 512, 32, 1
Inc4d_5x5, 14, 14, 5, 5, 32, 64, 1
Inc4d_pp, 14, 14, 1, 1, 512, 64, 1
Inc4e_1x1, 14, 14, 1, 1, 528, 256, 1
Inc4e_3x3red, 14, 14, 1, 1, 528, 160, 1
Inc4e_3x3, 14, 14, 3, 3, 160, 320, 1
Inc4e_5x5red, 14, 14, 1, 1, 528, 32, 1
Inc4e_5x5, 14, 14, 5, 5, 32, 128, 1
Inc4e_pp, 14, 14, 1, 1, 528, 128, 1
Inc5a_1x1, 7, 7, 1, 1, 832, 256, 1
Inc5a_3x3red, 7, 7, 1, 1, 532, 160, 1
Inc5a_3x3, 7, 7, 3, 3, 160, 320, 1
Inc5a_5x5red, 7, 7, 1, 1, 832, 32, 1
Inc5a_5x5, 7, 7, 5, 5, 32, 128, 1
Inc5a_pp, 7, 7, 1, 1, 832, 128, 1
Inc5b_1x1, 7, 7, 1, 1, 832, 384, 1
Inc5b_3x3red, 7, 7, 1, 1, 832, 192, 1
Inc5b_3x3, 7, 7, 3, 3, 192, 384, 1
Inc5b_5x5red, 7, 7, 1, 1, 832, 48, 1
Inc5b_5x5, 7, 7, 5, 5, 32, 128, 1
Inc5b_pp, 7, 7, 1, 1, 832, 128, 1
FC6, 1, 1, 1, 1, 1024, 1000, 1
"""

_NCF = """
MF_Embedding_user, 1, 1, 1, 1, 138000, 8, 1
MF_Embedding_item, 1, 1, 1, 1, 138000, 8, 1
MLP_Embedding_user, 1, 1, 1, 1, 138000, 32, 1
MLP_Embedding_item, 1, 1, 1, 1, 138000, 32, 1
MLP_FC1, 1, 1, 1, 1, 64, 32, 1
MLP_FC2, 1, 1, 1, 1, 32, 16, 1
MLP_FC3, 1, 1, 1, 1, 16, 8, 1
Predict_FC, 1, 1, 1, 1, 16, 1, 1
"""

_EMBEDDING = """
Embedding, 512, 1, 1, 1, 1, 33708, 1
"""

_HEAD = """
Attn_Xmap, 1, 1, 1, 1, 512, 64, 1
Attn_Kmap, 1, 1, 1, 1, 512, 64, 1
Attn_Qmap, 1, 1, 1, 1, 512, 64, 1
Attn_QxK', 1, 64, 1, 1, 1, 64, 1
Attn_SFMXxV, 1, 64, 1, 1, 64, 1, 1
Attn_Concat_map, 1, 1, 1, 1, 512, 512, 1
"""

_FEED_FORWARD = """
FFN1, 1, 1, 1, 1, 512, 2048, 1
FFN2, 1, 1, 1, 1, 2048, 512, 1
"""

_LAST = """
Attn_Concat_map, 1, 1, 1, 1, 512, 512, 1
"""

# One head of attention in the encoder, two in the decoder; eight of each, six times.
_ENCODER, _DECODER = 8 * _HEAD + _FEED_FORWARD, 16 * _HEAD + _FEED_FORWARD

_ROWS = {
    # The input of Conv2 is what Conv1 gives to a 3x3 maximum of stride 2: with an input of 227x227,
    # (227 - 11) / 4 + 1 = 55, and (55 - 3) / 2 + 1 = 27; the authors' file has a digit too many.
    "alexnet": _ALEXNET.replace("207, 207", "27, 27"),
    "alexnet_published": _ALEXNET,
    "alphagozero": _ALPHAGOZERO,
    "fasterrcnn": _RESNET50_TO_STAGE_4 + _REGION_PROPOSALS,
    "googlenet": _GOOGLENET,
    "ncf": _NCF,
    "resnet50": _RESNET50_TO_STAGE_4 + _RESNET50_STAGE_5,
    "transformer": _EMBEDDING + 6 * _ENCODER + _EMBEDDING + 6 * _DECODER + _LAST,
}
MODELS = tuple(_ROWS)
"""Names that `model_layers` takes."""
EVALUATED = tuple(name for name in MODELS if name != "alexnet")
"""The seven as the paper has them."""


def model_layers(name: str) -> tuple[LayerShape, ...]:
    """Layers of a model in the order of the forward pass."""
    if name not in _ROWS:
        raise JobError(f"Network must be one of {', '.join(MODELS)}, not {name!r}")
    return read_layers(HEADER + _ROWS[name])
