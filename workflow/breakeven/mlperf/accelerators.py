"""Families of accelerators: which of the exact names in system descriptions are one device for a comparison."""

from breakeven.schema.errors import UserError

#: Exact ``accelerator_model_name`` of a system description → family. Never guessed from a system's name: those count
#: cores ("v5p-128" is 64 chips) or name nodes as often as devices.
FAMILIES = {
    "AMD Radeon RX 7900 XTX": "RX-7900XTX",
    "H100 NVL Tensor Core GPU (PCIe)": "H100-NVL",
    "NVIDIA A100 - PCIe - 80 GB": "A100-PCIe",
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": "B200-SXM",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "NVIDIA H100 80GB HBM3": "H100-SXM",  # the driver's name of the SXM5 board
    "NVIDIA H100-SXM5-80GB": "H100-SXM",
    "NVIDIA H200-SXM5-141GB": "H200-SXM",
    "NVIDIA RTX A5000": "RTX-A5000",
    "TPU-v5p": "TPU-v5p",
}


def family(accelerator: str, described_in: str) -> str:
    """The family of an exact accelerator name. ``described_in`` is the file to name if it is unknown."""
    if accelerator not in FAMILIES:
        raise UserError(
            f"{described_in}: accelerator_model_name {accelerator!r} belongs to no known family.\n"
            f"Add it to FAMILIES in workflow/breakeven/mlperf/accelerators.py; known names: {', '.join(FAMILIES)}."
        )
    return FAMILIES[accelerator]
