"""`Endpoint`: one worker's protocol. Frames and the time go in, frames come out; it does no input or output.

A propagation runs its exchanges one after the other, all workers in step. An exchange, at each worker:

1. uploading: its vertices in the plan's order. Results are taken at any time.
2. all left: `done` for the block's first barrier, again at every timeout until `complete` comes. From then on
   what is still missing may be lost, for nothing completes in a dense block before its last uploads.
3. collecting: whatever is missing one timeout later is pulled from the workers that have it, as single
   contributions that no switch adds.
4. all there: `done` for the second barrier, again until `complete` comes. Pulls are answered all along.

Uploads are never sent twice, so a sum in the switch holds no contribution twice. Every wait ends: without
anything new for `patience_ns` the endpoint gives up and `error` says what and whom it waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from emulator import wire
from emulator.protocol import native
from emulator.protocol.counters import Counters
from emulator.protocol.dcqcn import DcqcnConfig, NotificationPoint
from emulator.protocol.frames import (
    ECN_MARKED,
    READY,
    Arrived,
    FrameMaker,
    Frames,
    Job,
    finishing,
    join,
    sending,
)
from emulator.protocol.gate import Gate
from emulator.protocol.intake import Intake
from emulator.protocol.layout import Exchange, Share
from emulator.protocol.pulls import pull_frames
from emulator.protocol.receiver import Receiver
from emulator.protocol.rtt import RttEstimator
from emulator.protocol.sender import Sender
from emulator.wire import PULL, VALUES_PER_PACKET, PacketType

NEVER = 2**62
MOST_QUEUED_NS = 20_000_000
EARLY_MOST = 1 << 14  # frames of the next exchange that are kept


@dataclass(frozen=True)
class Timing:
    """rto_*: bounds of the timeout; patience_ns: give up after so long without anything new;
    pull_window: contributions asked for at a time.
    """

    rto_min_ns: int
    rto_max_ns: int
    patience_ns: int
    pull_window: int = 4096


class State(Enum):
    """Where a worker is in its exchange."""

    IDLE = "idle"
    WAITING = "waiting for the other workers"
    UPLOADING = "uploading"
    COLLECTING = "collecting results"


class Endpoint:
    """One worker. Call `receive` with what arrived, `send` for what is to leave, again by `wake_ns`."""

    def __init__(self, job: Job, timing: Timing, dcqcn: DcqcnConfig) -> None:
        self.job, self.timing, self._dcqcn = job, timing, dcqcn
        self.state = State.IDLE
        self.counters = Counters()
        self.rtt = RttEstimator(timing.rto_min_ns, timing.rto_max_ns)
        self.round = 0
        self.exchange: Exchange | None = None
        self.error: str | None = None
        self.missing: tuple[int, ...] = ()
        self._maker = FrameMaker(job)
        self._gate = Gate(job, self.counters.dropped)
        self._intake = Intake(job, self._gate, self.counters)
        self._notices = NotificationPoint(job.workers, dcqcn.cnp_interval_ns)
        self._control: list[Frames] = []
        self._early: list[Frames] = []
        self._barrier = (1, READY)  # waited for, in state WAITING
        self.passed = (0, READY)  # the last barrier known to be complete
        self._asked_ns = self._due_ns = 0
        self.progress_ns = 0  # when anything new happened last
        self.entered_ns = 0  # when the exchange began
        self._resent = False
        self._outstanding = 0
        self._share: Share | None = None
        self._sender: Sender | None = None
        self._receiver: Receiver | None = None
        self._results = np.zeros((0, 0), np.uint8)  # what this exchange's results look like
        self._nothing = self._maker.make(PacketType.DONE, self._maker.switch, 0)

    # ---- told by the worker

    def join(self, now_ns: int) -> None:
        """Wait for all workers before the first propagation, and after the switch was loaded anew.

        Everything older than this barrier is stale to the switch.
        """
        self.progress_ns = now_ns
        self._report((self.round + 1) & 0xFFFF, READY, now_ns)

    def start(self, share: Share, values: npt.NDArray[np.int32], now_ns: int) -> None:
        """Begin a propagation. values: int32[own, width], its vertices in the order of `share.own`."""
        if self.state is not State.IDLE:
            raise RuntimeError(
                f"worker {self.job.worker}: a propagation begins while one is {self.state.value}"
            )
        self._share = share
        self._values = share.padded(values, VALUES_PER_PACKET)
        self._totals = np.zeros(self._values.shape, np.int64)
        self.round = (self.round + 1) & 0xFFFF
        self.progress_ns = now_ns
        if share.exchanges:
            self._enter(0, now_ns)

    def results(self) -> npt.NDArray[np.int64]:
        """int64[own, width]: the sums, once `state` is idle again."""
        assert self._share is not None
        flat = self._totals.reshape(len(self._totals), self._share.chunks * VALUES_PER_PACKET)
        return flat[:, : self._share.width]

    @property
    def idle(self) -> bool:
        """Whether no propagation or barrier is under way."""
        return self.state is State.IDLE

    @property
    def waits_for(self) -> tuple[int, int] | None:
        """(round, number) of the barrier that it has reported and waits for."""
        return self._barrier if self.state is State.WAITING else None

    @property
    def awaited(self) -> int:
        """Frames that have to come before there is anything to decide: to wake for fewer is no use."""
        if self._receiver is None or self.exchange is None:
            return 1
        if self.state is State.UPLOADING:
            return max(1, self._receiver.pending)
        if self.state is State.WAITING and self._at_first:
            return self._receiver.pending + 1
        return 1

    @property
    def lacks(self) -> tuple[int, ...]:
        """The workers whose contributions it has pulled and does not have."""
        if self.state is not State.COLLECTING or self._outstanding <= 0:
            return ()
        assert self.exchange is not None and self._receiver is not None
        remote, _ = self._receiver.missing()
        return tuple(int(w) for w in np.unique(self.exchange.remote_owner[remote]))

    @property
    def where(self) -> str:
        """For people: what this worker is doing."""
        if self.exchange is None:
            return f"{self.state.value}, before the first propagation"
        barrier = ""
        if self.state is State.WAITING and self._barrier[1] != READY:
            first = self._barrier[1] == sending(self.exchange.number)
            barrier = " to have sent" if first else " to have received"
        return f"{self.state.value}{barrier} (block {self.exchange.number}, propagation {self.round})"

    # ---- frames in

    def receive(self, frames: Frames, lengths: npt.NDArray[np.integer], now_ns: int) -> None:
        """A burst arrived: FRAME[n] and the bytes received of each."""
        if self._receiver is not None and self._receiver.exchange.in_network:
            new, copies, saturated, left = native.take_results(
                frames, lengths, self._results, self._receiver
            )
            self.counters.results += new
            self.counters.duplicates += copies
            self.counters.saturated += saturated
            if new:
                self._progressed(now_ns)
                self._advance(now_ns)
            if not left.any():
                return
            if new or copies:
                frames, lengths = frames[left], lengths[left]
        got = self._gate.admit(frames, lengths)
        if not len(got):
            return
        self._echo_congestion(got, now_ns)
        for kind, handle in ((PacketType.COMPLETE, self._on_complete), (PacketType.CNP, self._on_cnp)):
            of_kind = got.type == kind
            if of_kind.any():
                handle(got.keep(of_kind), now_ns)
                got = got.keep(~of_kind)
        self._by_position(got, now_ns)

    def _echo_congestion(self, got: Arrived, now_ns: int) -> None:
        """DCQCN's notification point: a result blames its last contributor, whose packet it was."""
        marked = (got.frames["ipv4"]["dscp_ecn"] & ECN_MARKED) == ECN_MARKED
        if not marked.any():
            return
        self.counters.ecn_marks += int(marked.sum())
        for kind, flags in ((PacketType.RESULT, 0), (PacketType.DIRECT, PULL)):
            of_kind = marked & (got.type == kind)
            senders = (got.source_worker if kind == PacketType.RESULT else got.worker)[of_kind]
            to = self._notices.marked(senders[(senders >= 0) & (senders != self.job.worker)], now_ns)
            if len(to):
                self._control.append(self._maker.make(PacketType.CNP, to, len(to), flags))
                self.counters.cnps_sent += len(to)

    def _on_cnp(self, got: Arrived, now_ns: int) -> None:
        self.counters.cnps += len(got)
        if self._sender is not None:
            about_answers = (got.flags & PULL) != 0
            if about_answers.any():
                self._sender.answers.rate.notified(now_ns)
            if not about_answers.all():
                self._sender.uploads.rate.notified(now_ns)

    def _on_complete(self, got: Arrived, now_ns: int) -> None:
        for row in zip(got.round, got.block, got.vertex, got.count, got.flags, strict=True):
            round_, number, high, low, flags = (int(x) for x in row)
            if self.job.key(round_, number) != (high, low):
                self.counters.dropped["forged"] += 1
            elif self.state is not State.WAITING or (round_, number) != self._barrier:
                # Ours came already; or the key is right before we have reported: a copy of another's `done`.
                self.counters.dropped["stale"] += 1
            else:
                self.counters.completions += 1
                # Karn, for everybody's sake: the report that completed this says whether its worker had to
                # recover. (The first barrier waits for others' uploads.)
                if not (self._resent or flags & wire.RESEND or self._at_first):
                    self.rtt.measured(now_ns - self._asked_ns)
                self._completed(now_ns)

    def _by_position(self, got: Arrived, now_ns: int) -> None:
        """Frames of the current exchange count; of the next, results may be here before it begins."""
        if not len(got):
            return
        active = self.exchange is not None and (self.state is not State.IDLE)
        number = -1 if self.exchange is None else self.exchange.number
        at = got.round << 16 | got.block
        here = self.round << 16 | sending(max(number, 0))
        current = (at == here) & active
        more = active and self._share is not None and number + 1 < self._share.exchanges
        following = here + 2 if more else ((self.round + 1) & 0xFFFF) << 16 | sending(0)
        early = (at == following) & (got.type != PacketType.PULL)
        if not current.all():
            other = ~current & ~early
            ahead = other & (((at - here - 1) & 0xFFFFFFFF) < 2**31)
            self.counters.dropped["ahead"] += int(ahead.sum())
            self.counters.dropped["stale"] += int(other.sum()) - int(ahead.sum())
            if early.any():
                self._keep_early(got.frames[early])
            got = got.keep(current)
        if len(got):
            self._take(got, now_ns)

    def _keep_early(self, frames: Frames) -> None:
        room = EARLY_MOST - sum(len(kept) for kept in self._early)
        self._early.append(frames[:room].copy())
        self.counters.dropped["early"] += max(0, len(frames) - room)

    def _take(self, got: Arrived, now_ns: int) -> None:
        """Frames of the current exchange."""
        exchange, receiver, sender = self.exchange, self._receiver, self._sender
        assert exchange is not None and receiver is not None and sender is not None
        got = self._intake.within(got, exchange)
        new = 0
        results, directs, pulls = (
            got.type == kind for kind in (PacketType.RESULT, PacketType.DIRECT, PacketType.PULL)
        )
        if results.any():
            new += self._intake.results(got.keep(results), exchange, receiver)
        if directs.any():
            contributions = self._intake.contributions(got.keep(directs), exchange, receiver)
            self._answered(contributions, now_ns)
            new += contributions
        if pulls.any():
            self._intake.pulls(got.keep(pulls), exchange, sender)
        if new:
            self._progressed(now_ns)
        self._advance(now_ns)

    def _progressed(self, now_ns: int) -> None:
        """Results or contributions came that were not here yet."""
        receiver = self._receiver
        assert receiver is not None
        self.progress_ns = now_ns
        self.rtt.progressed()
        if self.state is State.WAITING and self._at_first:  # results flow, so the completion is not due yet
            self._due_ns = max(self._due_ns, now_ns + self._report_again_ns(now_ns))
        if self.state is State.COLLECTING and receiver.pending and self._outstanding <= 0:
            self._due_ns = min(self._due_ns, now_ns) if receiver.bypassed.any() else self._due_ns

    def _answered(self, new: int, now_ns: int) -> None:
        """`new` contributions came; the first answer to a pull that was not sent again is a round trip."""
        if new and self._outstanding > 0:
            self._outstanding -= new
            if self._asked_ns >= 0:
                self.rtt.measured(now_ns - self._asked_ns)
                self._asked_ns = -1

    # ---- frames out

    def send(self, now_ns: int, room: int) -> Frames:
        """At most about `room` frames that are to leave now: control first, then answers, then uploads.

        Control frames are few and all go.
        """
        self._tick(now_ns)
        out = self._control
        self._control = []
        left = room - sum(len(frames) for frames in out)
        if self._sender is not None and self.exchange is not None:
            answers = self._sender.answer(now_ns, left)
            if answers is not None:
                self.counters.answers += len(answers)
                out.append(answers)
                left -= len(answers)
            uploads = self._sender.upload(now_ns, left) if self.state is State.UPLOADING else None
            if uploads is not None:
                if self.exchange.in_network:
                    self.counters.uploads += len(uploads)
                else:
                    self.counters.directs += len(uploads)
                out.append(uploads)
                self.progress_ns = now_ns
            self._advance(now_ns)
            out += self._control
            self._control = []
        if not out:
            return self._nothing
        return join(out)

    def wake_ns(self, now_ns: int) -> int:
        """When `send` has something to do: now_ns if at once, NEVER if only frames can change that."""
        if self._control:
            return now_ns
        times = [NEVER]
        if self.state in (State.WAITING, State.COLLECTING):
            times += [self._due_ns, self.progress_ns + self.timing.patience_ns]
        if self._sender is not None:
            if self.state is State.UPLOADING:
                times.append(self._sender.uploads.next_ns if self._sender.uploads.rate.limited else now_ns)
            if self._sender.queued:
                times.append(self._sender.answers.next_ns if self._sender.answers.rate.limited else now_ns)
        return max(now_ns, min(times))

    # ---- the exchange

    def _enter(self, number: int, now_ns: int) -> None:
        assert self._share is not None
        self.exchange = self._share.exchange(number)
        self._receiver = Receiver(self.exchange, self._totals)
        self._sender = Sender(self._maker, self.exchange, self.round, self._values, self._dcqcn)
        if self.exchange.in_network:
            self._results = native.result_patterns(self.job, self.exchange, self.round)
        self.state = State.UPLOADING
        self.entered_ns = now_ns
        self._outstanding = 0
        early, self._early = self._early, []
        for frames in early:
            self._by_position(Arrived(frames), now_ns)
        self._advance(now_ns)

    def _advance(self, now_ns: int) -> None:
        assert self._sender is not None and self._receiver is not None
        if self.state is State.UPLOADING and self._sender.all_sent:
            self._report(self.round, sending(self._sender.exchange.number), now_ns)
        elif self.state is State.COLLECTING and self._receiver.pending == 0:
            self._report(self.round, finishing(self._sender.exchange.number), now_ns)

    def _report(self, round_: int, number: int, now_ns: int) -> None:
        self.state, self._barrier, self._resent = State.WAITING, (round_, number), False
        self._asked_ns = now_ns
        self.rtt.progressed()
        receiver = self._receiver
        recovered = receiver is not None and receiver.exchange.in_network and receiver.bypassed.any()
        self._send_report(now_ns, wire.RESEND if recovered else 0)

    def _send_report(self, now_ns: int, flags: int) -> None:
        round_, number = self._barrier
        high, low = self.job.key(round_, number)
        self._control.append(
            self._maker.make(
                PacketType.DONE,
                self._maker.switch,
                1,
                flags,
                round=round_,
                block=number,
                vertex=high,
                count=low,
            )
        )
        self.counters.reports += 1
        self._due_ns = now_ns + self._report_again_ns(now_ns)

    @property
    def _at_first(self) -> bool:
        """Whether the barrier that is waited for is an exchange's first."""
        number = self._barrier[1]
        return number != READY and self.exchange is not None and number == sending(self.exchange.number)

    def _report_again_ns(self, now_ns: int) -> int:
        """How long a report is waited for: at a first barrier, where the others' uploads stand before it in
        the switch's queues, at least half as long as the exchange has taken.
        """
        queued = min((now_ns - self.entered_ns) // 2, MOST_QUEUED_NS) if self._at_first else 0
        return max(self.rtt.timeout_ns, queued)

    def _completed(self, now_ns: int) -> None:
        """The barrier that was waited for is complete."""
        self.progress_ns = now_ns
        self.rtt.progressed()
        self.passed = self._barrier
        if self._barrier[1] == READY:
            self.state = State.IDLE
        elif self._barrier[1] % 2:
            self.state = State.COLLECTING
            self._asked_ns = -1
            self._due_ns = now_ns + self.rtt.timeout_ns
            self._advance(now_ns)
        else:
            assert self.exchange is not None and self._share is not None and self._receiver is not None
            if self.exchange.in_network:
                self.counters.bypassed_chunks += int(self._receiver.bypassed.sum())
            if self.exchange.number + 1 < self._share.exchanges:
                self._enter(self.exchange.number + 1, now_ns)
            else:
                self.state, self._sender, self._receiver = State.IDLE, None, None

    def _tick(self, now_ns: int) -> None:
        """Timeouts: a report goes again, what is missing is pulled, or the worker gives up."""
        if self.state not in (State.WAITING, State.COLLECTING) or self.error is not None:
            return
        if now_ns >= self.progress_ns + self.timing.patience_ns:
            self._give_up()
            return
        if now_ns < self._due_ns:
            return
        if self.state is State.WAITING:
            self._resent = True
            self.counters.timeouts += 1
            self.counters.reports_resent += 1
            self.rtt.timed_out()
            self._send_report(now_ns, wire.RESEND)
        else:
            self._pull(now_ns)

    def _pull(self, now_ns: int) -> None:
        exchange, receiver = self.exchange, self._receiver
        assert exchange is not None and receiver is not None
        if self._outstanding > 0:  # the last pulls, or their answers, were lost
            self.rtt.timed_out()
        again = self._outstanding > 0
        self.counters.timeouts += 1
        remote, chunk = receiver.missing()
        remote, chunk = remote[: self.timing.pull_window], chunk[: self.timing.pull_window]
        receiver.ask(remote, chunk)
        self._outstanding = len(remote)
        self._asked_ns = -1 if again else now_ns
        self._due_ns = now_ns + self.rtt.timeout_ns
        frames = pull_frames(self._maker, exchange, self.round, remote, chunk)
        self._control.append(frames)
        self.counters.pulls += len(frames)
        self.counters.pulled_chunks += len(remote)

    def _give_up(self) -> None:
        waited = f"{self.timing.patience_ns / 1e9:g} s without anything new"
        if self.state is State.COLLECTING:
            assert self.exchange is not None and self._receiver is not None
            remote, _ = self._receiver.missing()
            self.missing = tuple(int(w) for w in np.unique(self.exchange.remote_owner[remote]))
            who = ", ".join(f"worker {w}" for w in self.missing)
            self.error = f"worker {self.job.worker}: {self.where}: {waited}; missing: {who}"
        else:
            self.error = f"worker {self.job.worker}: {self.where}: {waited}; missing: the switch's completion"
