"""Arrays and tensors of the same elements, one made into the other."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from multitree.topology.elements import DTYPES

__all__ = ["to_array", "to_tensor"]

_BFLOAT16 = DTYPES["bfloat16"]


def to_array(memory: Any) -> npt.NDArray[Any]:
    """Memory as an array on the host, wherever it is; shares what it can.

    Parameters
    ----------
    memory : numpy.ndarray or torch.Tensor
        bfloat16 tensors become arrays of `ml_dtypes.bfloat16`, which neither torch nor NumPy does.
    """
    if isinstance(memory, np.ndarray):
        return memory
    torch = sys.modules["torch"]
    tensor = memory.cpu()
    if tensor.dtype == torch.bfloat16:
        array: npt.NDArray[Any] = tensor.view(torch.int16).numpy().view(_BFLOAT16)
        return array
    array = tensor.numpy()
    return array


def to_tensor(memory: Any) -> Any:
    """Memory as a tensor, on the device where it is or on the CPU; shares what it can."""
    torch = sys.modules["torch"]
    if not isinstance(memory, np.ndarray):
        return memory
    if memory.dtype == _BFLOAT16:
        return torch.from_numpy(memory.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(memory)
