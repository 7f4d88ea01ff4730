"""What passes each switch port, both ways, as one pcap file per port."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1)  # nanoseconds, Ethernet
_RECORD = np.dtype([("seconds", "<u4"), ("fraction", "<u4"), ("kept", "<u4"), ("length", "<u4")])


class PortCapture:
    """Files FOLDER/SWITCH-PORT.pcap, made when first written to."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._files: dict[tuple[str, int], BinaryIO] = {}

    def write(
        self,
        switch: str,
        port: int,
        frames: npt.NDArray[np.uint8],
        lengths: npt.NDArray[np.int64],
        now_ns: int,
    ) -> None:
        """Frames as rows, at one time."""
        file = self._files.get((switch, port))
        if file is None:
            file = self._files[switch, port] = (self.folder / f"{switch}-{port}.pcap").open("wb")
            file.write(_HEADER)
        record = np.zeros(1, _RECORD)
        record["seconds"], record["fraction"] = divmod(now_ns, 10**9)
        for frame, length in zip(frames, lengths, strict=True):
            record["kept"] = record["length"] = length
            file.write(record.tobytes())
            file.write(frame[:length].tobytes())

    def close(self) -> None:
        """Finish the files."""
        for file in self._files.values():
            file.close()
        self._files = {}
