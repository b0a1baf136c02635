"""The one object that owns the device mesh: which ranks share what, and which part of the data is a rank's."""

import math
from dataclasses import dataclass
from typing import Any

from breakeven.schema.degrees import AXES


@dataclass(frozen=True, slots=True)
class Mesh:
    """``degrees`` holds the strategy's axes, outermost first; their product is the number of ranks (checked)."""

    degrees: dict[str, int]
    device: Any
    """This rank's ``torch.device``."""
    device_mesh: Any
    """Over all ranks, a dimension per axis; None for one rank without axes."""
    devices: int = 1
    """Of the whole run: more than ranks where one process drives them all."""

    @classmethod
    def make(cls, degrees: dict[str, int], ranks: int, device: Any, devices: int = 1) -> "Mesh":
        """Collective. Raises RuntimeError where the degrees are not the ranks that were started."""
        if math.prod(degrees.values()) != ranks:
            raise RuntimeError(f"the mesh {degrees} is not of the {ranks} ranks that were started")
        if not degrees:
            return cls(degrees, device, None, devices)
        from torch.distributed.device_mesh import init_device_mesh

        names = tuple(axis for axis in AXES if axis in degrees)
        shape = tuple(degrees[name] for name in names)
        return cls(degrees, device, init_device_mesh(device.type, shape, mesh_dim_names=names), devices)

    def degree(self, *axes: str) -> int:
        """Ranks along these axes together; 1 along an axis that the strategy has not."""
        return math.prod(self.degrees.get(axis, 1) for axis in axes)

    def coordinate(self, *axes: str) -> int:
        """This rank's place along these axes together, the first of them outermost; 0 along an axis that is not."""
        place = 0
        for axis in axes:
            if axis in self.degrees:
                place = place * self.degrees[axis] + self.device_mesh.get_local_rank(axis)
        return place

    def sub(self, *axes: str) -> Any:
        """The DeviceMesh of these axes, those left out that the strategy has not; one dimension for each."""
        names = tuple(axis for axis in axes if axis in self.degrees)
        return self.device_mesh[names if len(names) > 1 else names[0]]

    def flat(self, *axes: str) -> Any:
        """The same as a DeviceMesh of one dimension. Collective where it joins several."""
        found = self.sub(*axes)
        return found if found.ndim == 1 else found._flatten("_".join(found.mesh_dim_names))

    def grid(self, *dimensions: tuple[str, ...]) -> Any:
        """A DeviceMesh with a dimension for each of these groups of axes. Collective where one joins several."""
        return self.device_mesh[tuple(self.flat(*axes).mesh_dim_names[0] for axes in dimensions)]

    def group(self, *axes: str) -> Any:
        """The process group of these axes."""
        return self.flat(*axes).get_group()

    @property
    def data_ranks(self) -> int:
        """Parts a global batch is divided into."""
        return self.degree("replicate", "shard")

    @property
    def data_rank(self) -> int:
        """Which of them is this rank's."""
        return self.coordinate("replicate", "shard")

    @property
    def gradient_ranks(self) -> int:
        """Ranks whose gradients are averaged: those with other samples, and those with other tokens of the same."""
        return self.degree("replicate", "shard", "cp")
