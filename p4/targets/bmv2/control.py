"""P4Runtime to one switch, over p4runtime-shell's client: write, read, errors with their codes, digests."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.rpc import code_pb2
from p4runtime_sh.p4runtime import P4RuntimeClient, P4RuntimeException, P4RuntimeWriteException

from p4.targets.target import TargetError
from p4.v1 import p4runtime_pb2

_CONNECT_S = 60.0
_ELECTION_ID = (0, 1)


def as_bytes(value: int) -> bytes:
    """A value as P4Runtime's canonical bit string: no leading zero bytes (specification 8.4)."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


class Control:
    """A session as the primary controller. Every refusal is a TargetError with P4Runtime's code."""

    def __init__(self, address: str, config: Path, p4info: Path) -> None:
        channel = grpc.insecure_channel(address)
        try:
            grpc.channel_ready_future(channel).result(timeout=_CONNECT_S)
        except grpc.FutureTimeoutError:
            raise TargetError("UNAVAILABLE", f"no P4Runtime server at {address}") from None
        finally:
            channel.close()
        self._client = self._connect(address)
        try:
            self._client.set_fwd_pipe_config(str(p4info), str(config))
        except P4RuntimeException as error:
            self.close()
            raise _rpc_error(error.grpc_error) from None

    @staticmethod
    def _connect(address: str) -> P4RuntimeClient:
        # The client gives up, and ends the process, if the switch takes over two seconds to answer: on a
        # loaded machine it may.
        end = time.monotonic() + _CONNECT_S
        while True:
            try:
                return P4RuntimeClient(0, address, _ELECTION_ID)
            except SystemExit:
                if time.monotonic() > end:
                    raise TargetError("UNAVAILABLE", f"no P4Runtime session at {address}") from None

    def write(self, kind: str, entity: p4runtime_pb2.Entity) -> None:
        """One update; `kind` is INSERT, MODIFY or DELETE."""
        update = p4runtime_pb2.Update()
        update.type = p4runtime_pb2.Update.Type.Value(kind)
        update.entity.CopyFrom(entity)
        try:
            self._client.write_update(update)
        except P4RuntimeWriteException as error:
            _, first = error.errors[0]
            code = code_pb2.Code.Name(first.canonical_code)
            raise TargetError(code, first.message or "refused by the switch") from None
        except grpc.RpcError as error:
            raise _rpc_error(error) from None

    def read(self, entity: p4runtime_pb2.Entity) -> Iterator[p4runtime_pb2.Entity]:
        """All entities that match."""
        try:
            for response in self._client.read_one(entity):
                yield from response.entities
        except P4RuntimeException as error:
            raise _rpc_error(error.grpc_error) from None
        except grpc.RpcError as error:
            raise _rpc_error(error) from None

    def digests(self, wait_s: float) -> list[p4runtime_pb2.DigestList]:
        """The digest lists that came since the last call, acknowledged; the first may take `wait_s`."""
        lists: list[p4runtime_pb2.DigestList] = []
        waiting = self._client.stream_in_q["digest"]
        end = time.monotonic() + wait_s
        while True:
            try:
                message = waiting.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                return lists
            if message is None:
                raise TargetError("UNAVAILABLE", "the P4Runtime stream is closed")
            lists.append(message.digest)
            self._acknowledge(message.digest)

    def _acknowledge(self, message: p4runtime_pb2.DigestList) -> None:
        request = p4runtime_pb2.StreamMessageRequest()
        request.digest_ack.digest_id = message.digest_id
        request.digest_ack.list_id = message.list_id
        self._client.stream_out_q.put(request)

    def close(self) -> None:
        self._client.tear_down()


def _rpc_error(error: Any) -> TargetError:
    return TargetError(error.code().name, error.details() or "refused by the switch")
