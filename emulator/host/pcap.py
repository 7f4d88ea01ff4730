"""net_pcap: packets from a pcap file and to one; `Capture` writes down what passes another port."""

from __future__ import annotations

from pathlib import Path

from emulator import _host
from emulator.host.ethdev import EthDev, Link, NativeEthDev
from emulator.host.mempool import Mbufs
from emulator.host.wrapper import Wrapper
from workloads.errors import InputError


def _opened(name: str, rx_file: Path | None, tx_file: Path | None) -> _host.PcapPort:
    try:
        return _host.PcapPort(str(rx_file or ""), str(tx_file or ""))
    except OSError as error:
        raise InputError(f"{name}: {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


class PcapEthDev(NativeEthDev):
    """``rx_file``: read once, from its start, at each `start`; ``tx_file``: written anew. Either may be None.

    The link is up while there is something left to receive. A file cut off in the middle of a packet counts
    one `ierrors`. `start` raises InputError for a file that cannot be read or written or is no Ethernet
    pcap file.
    """

    def __init__(self, name: str, *, rx_file: Path | None = None, tx_file: Path | None = None) -> None:
        super().__init__(name)
        self.rx_file = rx_file
        self.tx_file = tx_file

    def _open(self) -> _host.Port:
        return _opened(self.name, self.rx_file, self.tx_file)

    def link(self) -> Link:
        return Link(isinstance(self.native, _host.PcapPort) and not self.native.at_end, 0)


class Capture(Wrapper):
    """`inner`, whose packets of both directions are also written to a pcap file by the wall clock's time."""

    def __init__(self, name: str, inner: EthDev, path: Path) -> None:
        super().__init__(name, inner)
        self._file = _opened(self.name, None, path)

    def rx_burst(self, count: int = 32) -> Mbufs:
        got = self.inner.rx_burst(count)
        if len(got):
            self._file.write(self._pool().native, got)
        return got

    def tx_burst(self, mbufs: Mbufs) -> int:
        pool = self._pool()
        pool.share(mbufs)  # still there to be written down after they were sent
        try:
            sent = self.inner.tx_burst(mbufs)
            self._file.write(pool.native, mbufs[:sent])
        finally:
            pool.free(mbufs)
        return sent

    def flush(self) -> None:
        """Write out what is still in memory."""
        self._file.flush()

    def stop(self) -> None:
        super().stop()
        self.flush()
