"""A port around another port: everything is the inner one's until a wrapper says otherwise."""

from __future__ import annotations

from emulator import _host
from emulator.host.ethdev import EthDev, Link
from emulator.host.mempool import Mbufs, Mempool


class Wrapper(EthDev):
    """``inner`` belongs to the wrapper from now on: it is configured, started, stopped and closed with it."""

    def __init__(self, name: str, inner: EthDev) -> None:
        super().__init__(name, mac=inner.mac)
        self.inner = inner

    def configure(self, pool: Mempool) -> None:
        super().configure(pool)
        self.inner.port_id = self.port_id
        self.inner.configure(pool)

    def start(self) -> None:
        self.inner.start()
        self.started = True

    def stop(self) -> None:
        self.started = False
        self.inner.stop()

    def close(self) -> None:
        self.stop()
        self.inner.close()

    def rx_burst(self, count: int = 32) -> Mbufs:
        return self.inner.rx_burst(count)

    def tx_burst(self, mbufs: Mbufs) -> int:
        return self.inner.tx_burst(mbufs)

    def link(self) -> Link:
        return self.inner.link()

    def xstats(self) -> dict[str, int]:
        return self.inner.xstats()

    def reset_stats(self) -> None:
        self.inner.reset_stats()

    @property
    def promiscuous(self) -> bool:
        return self.inner.promiscuous

    @promiscuous.setter
    def promiscuous(self, on: bool) -> None:
        self.inner.promiscuous = on

    @property
    def mtu(self) -> int:
        return self.inner.mtu

    @mtu.setter
    def mtu(self, size: int) -> None:
        self.inner.mtu = size

    def coalesce(self, packets: int) -> None:
        self.inner.coalesce(packets)

    def waited_for(self) -> tuple[list[_host.Port], list[int], int | None]:
        return self.inner.waited_for()
