#include "host.h"

#include "epoch-runner.h"
#include "wire-codec.h"

#include <algorithm>
#include <cmath>

namespace netfold
{

HostBasedState::HostBasedState(std::uint32_t tag_, const Exchange& exchange_, std::uint32_t workers)
    : tag(tag_),
      exchange(exchange_),
      received((static_cast<std::size_t>(exchange_.Entries()) * exchange_.HostChunks() + 63) / 64, 0),
      pending(static_cast<std::size_t>(workers) * exchange_.Bins(), 0)
{
    const std::uint32_t bins = exchange.Bins();
    for (std::uint32_t receiver = 0; receiver < workers; ++receiver)
    {
        for (std::uint32_t sender = 0; sender < workers; ++sender)
        {
            std::uint64_t from = exchange.FlowBegin(receiver, sender);
            for (std::uint32_t bin = 0; bin < bins; ++bin)
            {
                const std::uint64_t to = exchange.BinEnd(receiver, sender, bin);
                pending[receiver * bins + bin] += (to - from) * exchange.HostChunks();
                from = to;
            }
        }
    }
}

Host::Host(Fabric& fabric, Aggregation& aggregation, EpochRunner& runner, std::uint32_t worker)
    : m_fabric(fabric),
      m_aggregation(aggregation),
      m_runner(runner),
      m_worker(worker),
      m_source(fabric.events.Add(this)),
      m_flows(fabric.config.workers),
      m_lastCnp(2 * static_cast<std::size_t>(fabric.config.workers), -kNever / 2),
      m_timer(*this, &Host::OnTimer),
      m_backgroundClock(*this, &Host::NextBackgroundFlow),
      m_backgroundRandom(fabric.config.seed, 1000 + worker)
{
}

// ------------------------------------------------------------------------------------------------- told by the epoch

void
Host::StartInNetwork(std::uint32_t tag, Ps now)
{
    const Exchange& exchange = m_aggregation.Current();
    const auto slots = m_fabric.config.presum ? exchange.ContributedSlots(m_worker) : exchange.OwnSlots(m_worker);
    m_uploadFlow.rate = Dcqcn(); // a block is a message of its own, and a DCQCN flow starts at line rate (section 3.2)
    m_uploadFlow.next = now;
    m_uploads.tag = tag;
    m_uploads.next = 0;
    m_uploads.chunk = 0;
    m_uploads.slots.assign(slots.begin(), slots.end());
    m_uploads.done = slots.empty();
    m_sentReported = false;
    m_finishSent = false;
    m_allSent = false;
    if (!m_uploads.done)
    {
        Activate(m_uploadFlow, now);
    }
    FinishIfDone(now);
}

void
Host::ReleaseHostBased(std::uint32_t tag, const Exchange& exchange, std::uint32_t bin, Ps now)
{
    m_releasedTag = tag;
    for (std::uint32_t offset = 1; offset < m_fabric.config.workers; ++offset)
    {
        // Start with the next worker and go round: at any moment the senders aim at different receivers.
        const std::uint32_t receiver = (m_worker + offset) % m_fabric.config.workers;
        const std::uint64_t from =
            bin > 0 ? exchange.BinEnd(receiver, m_worker, bin - 1) : exchange.FlowBegin(receiver, m_worker);
        const std::uint64_t to = exchange.BinEnd(receiver, m_worker, bin);
        if (from == to)
        {
            continue;
        }
        Flow& flow = FlowTo(receiver);
        if (flow.segments.Empty() || flow.segments.Back().tag != tag)
        {
            flow.segments.Push({tag, from, from, exchange.FlowEnd(receiver, m_worker), 0});
            if (!flow.active)
            {
                flow.rate = Dcqcn(); // a new message: starts at line rate
                flow.next = now;
            }
        }
        flow.segments.Back().released = to;
        if (HasData(flow))
        {
            Activate(flow, now);
        }
    }
}

void
Host::Await(std::uint32_t tag, Ps rto, Ps now)
{
    m_awaited.push_back({tag, rto});
    if (m_awaited.size() == 1)
    {
        m_backoff = 0;
        m_lastProgress = now;
        if (!m_fabric.events.IsArmed(m_timer.source))
        {
            m_fabric.events.Arm(m_timer.source, now + rto);
        }
    }
}

void
Host::Received(std::uint32_t tag, Ps now)
{
    std::erase_if(m_awaited, [tag](const Awaited& awaited) { return awaited.tag == tag; });
    m_backoff = 0;
    m_lastProgress = now;
}

// ------------------------------------------------------------------------------------------------------- transmit

Host::Flow&
Host::FlowTo(std::uint32_t worker)
{
    auto& flow = m_flows[worker];
    if (!flow)
    {
        flow = std::make_unique<Flow>();
        flow->destination = static_cast<std::uint16_t>(worker);
    }
    return *flow;
}

bool
Host::HasData(Flow& flow) const
{
    if (&flow == &m_uploadFlow)
    {
        return !m_uploads.done;
    }
    return !flow.replies.Empty() || flow.backgroundBytes > 0 ||
           (!flow.segments.Empty() && flow.segments.Front().next < flow.segments.Front().released);
}

void
Host::Activate(Flow& flow, Ps now)
{
    if (!flow.active)
    {
        flow.active = true;
        m_active.push_back({flow.next, &flow});
    }
    Kick(now);
}

void
Host::Kick(Ps now)
{
    const Ps at = std::max(now, m_uplink->BusyUntil());
    if (at < m_armedAt && !m_uplink->Paused())
    {
        m_armedAt = at;
        m_fabric.events.Arm(m_source, at);
    }
}

void
Host::PortResumed(Ps now)
{
    if (!m_active.empty() || !m_control.Empty())
    {
        Kick(now);
    }
}

void
Host::Fire(Ps now)
{
    m_armedAt = kNever;
    if (m_uplink->Paused())
    {
        return;
    }
    std::uint32_t sent = 0;
    while (sent < m_fabric.config.tx_burst && SendNext(now))
    {
        ++sent;
    }
    Ps next = m_control.Empty() ? kNever : now;
    for (const Active& active : m_active)
    {
        next = std::min(next, active.next);
        if (next <= now)
        {
            break;
        }
    }
    if (next != kNever)
    {
        m_armedAt = std::max(next, m_uplink->BusyUntil());
        m_fabric.events.Arm(m_source, m_armedAt);
    }
    FinishIfDone(now);
}

bool
Host::SendNext(Ps now)
{
    if (!m_control.Empty())
    {
        Transmit(m_control.Pop(), now);
        return true;
    }
    const std::size_t count = m_active.size();
    for (std::size_t i = 0; i < count; ++i)
    {
        if (m_turn >= count)
        {
            m_turn = 0;
        }
        Active& active = m_active[m_turn];
        if (active.next > now)
        {
            ++m_turn;
            continue;
        }
        Flow& flow = *active.flow;
        Frame frame{};
        frame.payload = kNone;
        frame.src = static_cast<std::uint16_t>(m_worker);
        Produce(flow, frame);
        const Config& config = m_fabric.config;
        if (config.dcqcn && flow.rate.Limited())
        {
            flow.rate.Advance(config, config.host_link_bps, now);
            flow.rate.OnSent(config, config.host_link_bps, frame.bytes);
            const double bits = 8.0 * (frame.bytes + config.wire_gap_bytes);
            flow.next = std::max(now, flow.next) + static_cast<Ps>(bits * 1e12 / flow.rate.RateBps());
            active.next = flow.next;
        }
        Transmit(frame, now);
        if (HasData(flow))
        {
            ++m_turn;
        }
        else
        {
            flow.active = false;
            m_active.erase(m_active.begin() + static_cast<std::ptrdiff_t>(m_turn));
            const auto id = flow.id;
            if (frame.kind == Kind::Background)
            {
                m_background.erase(id);
            }
        }
        return true;
    }
    return false;
}

void
Host::Transmit(Frame frame, Ps now)
{
    if (m_fabric.wire)
    {
        m_fabric.wire->Encode(frame);
    }
    m_uplink->Enqueue(frame, now);
}

void
Host::Produce(Flow& flow, Frame& frame)
{
    if (&flow == &m_uploadFlow)
    {
        ProduceUpload(frame);
        return;
    }
    frame.dst = flow.destination;
    if (!flow.replies.Empty())
    {
        const Reply reply = flow.replies.Pop();
        ProduceReply(reply, frame);
    }
    else if (flow.backgroundBytes > 0)
    {
        ProduceBackground(flow, frame);
    }
    else
    {
        ProduceSegment(flow, frame);
    }
}

void
Host::ProduceUpload(Frame& frame)
{
    const Config& config = m_fabric.config;
    const Exchange& exchange = m_runner.ExchangeOf(m_uploads.tag);
    const std::uint32_t slot = m_uploads.slots[m_uploads.next];
    frame.kind = config.presum ? Kind::Presum : Kind::Upload;
    frame.item = slot;
    frame.chunk = static_cast<std::uint16_t>(m_uploads.chunk);
    frame.tag = m_uploads.tag;
    frame.dst = static_cast<std::uint16_t>(config.workers + m_worker / (config.workers / config.leaves));
    frame.bytes = static_cast<std::uint16_t>(config.frame_overhead_bytes + 4 * config.values_per_packet);
    if (config.value_mode)
    {
        frame.payload = config.presum ? FillPresum(slot, m_worker, frame.chunk)
                                      : FillVertex(frame.tag, slot, frame.chunk, config.values_per_packet);
    }
    if (++m_uploads.chunk == exchange.Chunks())
    {
        m_uploads.chunk = 0;
        m_uploads.done = ++m_uploads.next == m_uploads.slots.size();
    }
}

void
Host::ProduceReply(const Reply& reply, Frame& frame)
{
    const Config& config = m_fabric.config;
    const Exchange& exchange = m_runner.ExchangeOf(reply.tag);
    frame.kind = Kind::Raw;
    frame.flags = kResend;
    frame.tag = reply.tag;
    frame.item = reply.entry;
    frame.chunk = static_cast<std::uint16_t>(reply.chunk);
    ++m_fabric.counters.resends;
    if (exchange.HostBased())
    {
        const std::uint32_t values = exchange.ValuesIn(reply.chunk, exchange.HostValues());
        frame.bytes = static_cast<std::uint16_t>(config.frame_overhead_bytes + 4 * values);
        if (config.value_mode)
        {
            const std::uint32_t slot = exchange.EntrySlot(exchange.FlowEntry(reply.entry));
            frame.payload = FillVertex(reply.tag, slot, reply.chunk, exchange.HostValues());
        }
        return;
    }
    frame.bytes = static_cast<std::uint16_t>(config.frame_overhead_bytes + 4 * config.values_per_packet);
    if (config.value_mode)
    {
        const std::uint32_t slot = exchange.EntrySlot(reply.entry);
        frame.payload = config.presum ? FillPresum(slot, m_worker, reply.chunk)
                                      : FillVertex(reply.tag, slot, reply.chunk, config.values_per_packet);
    }
}

void
Host::ProduceSegment(Flow& flow, Frame& frame)
{
    const Config& config = m_fabric.config;
    Segment& segment = flow.segments.Front();
    const Exchange& exchange = m_runner.ExchangeOf(segment.tag);
    frame.kind = Kind::Raw;
    frame.tag = segment.tag;
    frame.item = static_cast<std::uint32_t>(segment.next);
    frame.chunk = static_cast<std::uint16_t>(segment.chunk);
    if (exchange.VerticesPerPacket() > 1)
    {
        const auto vertices =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(exchange.VerticesPerPacket(), segment.released - segment.next));
        frame.bytes = static_cast<std::uint16_t>(config.frame_overhead_bytes + 4 * exchange.Width() * vertices);
        if (config.value_mode)
        {
            frame.payload = m_fabric.values.Allocate();
            std::int32_t* values = m_fabric.values.At(frame.payload);
            const std::int32_t* features = m_runner.Features(segment.tag);
            for (std::uint32_t i = 0; i < vertices; ++i)
            {
                const std::uint32_t slot = exchange.EntrySlot(exchange.FlowEntry(segment.next + i));
                std::copy_n(features + static_cast<std::size_t>(exchange.BoundaryIndex(slot)) * exchange.Width(),
                            exchange.Width(),
                            values + static_cast<std::size_t>(i) * exchange.Width());
            }
        }
        segment.next += vertices;
    }
    else
    {
        const std::uint32_t values = exchange.ValuesIn(segment.chunk, exchange.HostValues());
        frame.bytes = static_cast<std::uint16_t>(config.frame_overhead_bytes + 4 * values);
        if (config.value_mode)
        {
            const std::uint32_t slot = exchange.EntrySlot(exchange.FlowEntry(segment.next));
            frame.payload = FillVertex(segment.tag, slot, segment.chunk, exchange.HostValues());
        }
        if (++segment.chunk == exchange.HostChunks())
        {
            segment.chunk = 0;
            ++segment.next;
        }
    }
    if (segment.next == segment.end)
    {
        flow.segments.Pop();
    }
}

void
Host::ProduceBackground(Flow& flow, Frame& frame)
{
    const Config& config = m_fabric.config;
    constexpr std::uint32_t ethernet = 18;
    const std::uint32_t most = config.mtu_bytes + ethernet - config.frame_overhead_bytes;
    const auto payload = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, flow.backgroundBytes));
    frame.kind = Kind::Background;
    frame.item = flow.id;
    frame.bytes = static_cast<std::uint16_t>(std::max(64u, config.frame_overhead_bytes + payload));
    flow.backgroundBytes -= payload;
}

std::uint32_t
Host::FillVertex(std::uint32_t tag, std::uint32_t slot, std::uint32_t chunk, std::uint32_t perPacket)
{
    const Exchange& exchange = m_runner.ExchangeOf(tag);
    const std::uint32_t payload = m_fabric.values.Allocate();
    const std::int32_t* features = m_runner.Features(tag);
    std::copy_n(features + static_cast<std::size_t>(exchange.BoundaryIndex(slot)) * exchange.Width() + chunk * perPacket,
                exchange.ValuesIn(chunk, perPacket),
                m_fabric.values.At(payload));
    return payload;
}

std::uint32_t
Host::FillPresum(std::uint32_t slot, std::uint32_t worker, std::uint32_t chunk)
{
    const Exchange& exchange = m_aggregation.Current();
    const std::uint32_t perPacket = m_fabric.config.values_per_packet;
    const std::uint32_t count = exchange.ValuesIn(chunk, perPacket);
    const std::uint32_t payload = m_fabric.values.Allocate();
    std::int32_t* sum = m_fabric.values.At(payload);
    const std::int32_t* features = m_runner.Features(m_aggregation.Tag());
    for (const auto neighbour : exchange.EntryNeighbours(exchange.FindEntry(slot, worker)))
    {
        const std::int32_t* values =
            features + static_cast<std::size_t>(exchange.BoundaryIndex(neighbour)) * exchange.Width() + chunk * perPacket;
        for (std::uint32_t i = 0; i < count; ++i)
        {
            if (__builtin_add_overflow(sum[i], values[i], &sum[i]))
            {
                sum[i] = values[i] < 0 ? INT32_MIN : INT32_MAX;
                ++m_fabric.counters.saturated;
            }
        }
    }
    return payload;
}

void
Host::SendControl(Kind kind, std::uint16_t destination, std::uint32_t item, std::uint32_t tag, std::uint8_t flags, Ps now)
{
    Frame frame{};
    frame.payload = kNone;
    frame.kind = kind;
    frame.src = static_cast<std::uint16_t>(m_worker);
    frame.dst = destination;
    frame.item = item;
    frame.tag = tag;
    frame.flags = flags;
    frame.bytes = static_cast<std::uint16_t>(m_fabric.config.control_frame_bytes);
    m_control.Push(frame);
    Kick(now);
}

// -------------------------------------------------------------------------------------------------------- receive

void
Host::Receive(Frame& frame, std::uint32_t, Ps now)
{
    if (m_fabric.wire && !m_fabric.wire->Decode(frame, m_worker))
    {
        ++m_fabric.counters.unreadable;
        return;
    }
    if ((frame.flags & kCongestionExperienced) && m_fabric.config.dcqcn)
    {
        EchoCongestion(frame, now);
    }
    switch (frame.kind)
    {
    case Kind::Result:
        OnResult(frame, now);
        break;
    case Kind::Presum:
    case Kind::Partial:
        OnBypassedSum(frame, now);
        break;
    case Kind::Raw:
        if (m_runner.ExchangeOf(frame.tag).HostBased())
        {
            if (HostBasedState* state = m_runner.HostBased(frame.tag, true))
            {
                OnRawHostBased(frame, *state, now);
            }
            else
            {
                ++m_fabric.counters.stale;
            }
        }
        else
        {
            OnRawInNetwork(frame, now);
        }
        break;
    case Kind::Complete:
        if (frame.flags & kSentOnly)
        {
            if (frame.tag == m_uploads.tag)
            {
                m_allSent = true;
                m_backoff = 0;
                m_lastProgress = now;
                FinishIfDone(now);
            }
            break;
        }
        if (m_uploads.tag == Aggregation::kNoTag || frame.tag > m_uploads.tag || (frame.tag == m_uploads.tag && !m_finishSent))
        {
            ++m_fabric.counters.unreadable; // of a block that this worker is not through with: a program's invention
            break;
        }
        Received(frame.tag, now);
        m_runner.OnComplete(m_worker, frame.tag, now);
        break;
    case Kind::Pull:
        OnPull(frame, now);
        break;
    case Kind::Cnp:
        OnCnp(frame, now);
        break;
    case Kind::Background:
        m_fabric.counters.backgroundBytes += frame.bytes;
        break;
    case Kind::Upload:
    case Kind::Finish:
        break; // never addressed to a worker
    }
    m_fabric.Consume(frame);
}

void
Host::OnResult(const Frame& frame, Ps now)
{
    if (frame.tag != m_aggregation.Tag())
    {
        ++m_fabric.counters.stale;
        return;
    }
    if (m_aggregation.IsDone(frame.item, frame.chunk))
    {
        ++m_fabric.counters.duplicates;
        return;
    }
    // First come first served, the sum may lack racks whose leaf had no aggregator: their contributions come raw.
    const std::size_t index = m_aggregation.Index(frame.item, frame.chunk);
    const std::uint32_t leaves = m_fabric.config.leaves;
    bool whole = true;
    for (std::uint32_t rack = 0; m_fabric.config.first_come && rack < leaves; ++rack)
    {
        whole = whole && !m_aggregation.IsRawRack(rack, index);
    }
    if (whole)
    {
        AddToResult(frame.item, frame.chunk, frame.payload);
        m_aggregation.MarkDone(frame.item, frame.chunk);
        AfterInNetworkProgress(now);
        return;
    }
    m_aggregation.PrepareRaw();
    AddToCovered(frame);
    bool complete = false;
    for (std::uint32_t rack = 0; rack < leaves; ++rack)
    {
        if (m_aggregation.RackContributions(rack, frame.item) > 0 && !m_aggregation.IsRawRack(rack, index))
        {
            complete |= m_aggregation.Cover(rack, frame.item, frame.chunk);
        }
    }
    if (complete) // only now: every rack in the sum must be known as covered before the raw ones are added to it
    {
        CompleteFromRacks(frame.item, frame.chunk);
    }
    AfterInNetworkProgress(now);
}

void
Host::AddToResult(std::uint32_t slot, std::uint32_t chunk, std::uint32_t payload)
{
    if (payload == kNone)
    {
        return;
    }
    const Exchange& exchange = m_aggregation.Current();
    const std::uint32_t perPacket = m_fabric.config.values_per_packet;
    std::int64_t* result = m_runner.Results(m_aggregation.Tag()) +
                           static_cast<std::size_t>(exchange.BoundaryIndex(slot)) * exchange.Width() + chunk * perPacket;
    const std::int32_t* values = m_fabric.values.At(payload);
    for (std::uint32_t i = 0; i < exchange.ValuesIn(chunk, perPacket); ++i)
    {
        result[i] += values[i];
    }
}

void
Host::AddToCovered(const Frame& frame)
{
    if (frame.payload == kNone)
    {
        return;
    }
    std::int64_t* sums = m_aggregation.CoveredSums(frame.item, frame.chunk);
    const std::int32_t* values = m_fabric.values.At(frame.payload);
    for (std::uint32_t i = 0; i < m_fabric.config.values_per_packet; ++i)
    {
        sums[i] += values[i];
    }
}

// Every rack's contributions are here, as sums or one by one: together they are the vertex's sum.
void
Host::CompleteFromRacks(std::uint32_t slot, std::uint32_t chunk)
{
    m_aggregation.MarkDone(slot, chunk);
    if (!m_fabric.config.value_mode)
    {
        return;
    }
    const Exchange& exchange = m_aggregation.Current();
    const std::uint32_t perPacket = m_fabric.config.values_per_packet;
    std::int64_t* result = m_runner.Results(m_aggregation.Tag()) +
                           static_cast<std::size_t>(exchange.BoundaryIndex(slot)) * exchange.Width() + chunk * perPacket;
    const std::int64_t* covered = m_aggregation.CoveredSums(slot, chunk);
    for (std::uint32_t i = 0; i < exchange.ValuesIn(chunk, perPacket); ++i)
    {
        result[i] += covered[i];
        for (std::uint32_t rack = 0; rack < m_fabric.config.leaves; ++rack)
        {
            if (!m_aggregation.IsCovered(rack, slot, chunk))
            {
                result[i] += m_aggregation.RawSums(rack, slot, chunk)[i];
            }
        }
    }
}

void
Host::AddRawContribution(std::uint32_t rack, std::uint32_t slot, const Frame& frame)
{
    if (m_aggregation.IsDone(slot, frame.chunk))
    {
        return;
    }
    if (frame.payload != kNone)
    {
        std::int64_t* sums = m_aggregation.RawSums(rack, slot, frame.chunk);
        const std::int32_t* values = m_fabric.values.At(frame.payload);
        for (std::uint32_t i = 0; i < m_fabric.config.values_per_packet; ++i)
        {
            sums[i] += values[i];
        }
    }
    if (m_aggregation.AddRaw(rack, slot, frame.chunk))
    {
        CompleteFromRacks(slot, frame.chunk);
    }
}

void
Host::OnRawInNetwork(const Frame& frame, Ps now)
{
    if (frame.tag != m_aggregation.Tag())
    {
        ++m_fabric.counters.stale;
        return;
    }
    m_aggregation.PrepareRaw();
    if (!m_aggregation.MarkRaw(frame.item, frame.chunk))
    {
        ++m_fabric.counters.duplicates;
        return;
    }
    const Exchange& exchange = m_aggregation.Current();
    if (m_fabric.config.presum)
    {
        AddRawContribution(m_aggregation.LeafOf(frame.src), exchange.EntrySlot(frame.item), frame);
    }
    else
    {
        const std::uint32_t rack = m_aggregation.LeafOf(frame.src);
        for (const auto slot : exchange.EntryNeighbours(frame.item))
        {
            AddRawContribution(rack, static_cast<std::uint32_t>(slot), frame);
        }
    }
    AfterInNetworkProgress(now);
}

// A sum that found no aggregator at the owner's leaf: a rack's, or with presum one worker's.
void
Host::OnBypassedSum(const Frame& frame, Ps now)
{
    if (frame.tag != m_aggregation.Tag())
    {
        ++m_fabric.counters.stale;
        return;
    }
    m_aggregation.PrepareRaw();
    const std::uint32_t rack = m_aggregation.LeafOf(frame.src);
    if (frame.kind == Kind::Presum)
    {
        const std::uint32_t entry = m_aggregation.Current().FindEntry(frame.item, frame.src);
        if (m_aggregation.MarkRaw(entry, frame.chunk))
        {
            AddRawContribution(rack, frame.item, frame);
        }
        else
        {
            ++m_fabric.counters.duplicates;
        }
    }
    else if (!m_aggregation.IsDone(frame.item, frame.chunk))
    {
        AddToCovered(frame);
        if (m_aggregation.Cover(rack, frame.item, frame.chunk))
        {
            CompleteFromRacks(frame.item, frame.chunk);
        }
    }
    AfterInNetworkProgress(now);
}

void
Host::OnRawHostBased(const Frame& frame, HostBasedState& state, Ps now)
{
    const Exchange& exchange = state.exchange;
    const bool packed = exchange.VerticesPerPacket() > 1 && !(frame.flags & kResend);
    const std::uint32_t vertices =
        packed ? (frame.bytes - m_fabric.config.frame_overhead_bytes) / (4 * exchange.Width()) : 1;
    bool binDone = false;
    for (std::uint32_t i = 0; i < vertices; ++i)
    {
        const std::uint64_t position = frame.item + i;
        if (!state.Mark(position, frame.chunk))
        {
            ++m_fabric.counters.duplicates;
            continue;
        }
        const std::uint32_t bin = exchange.Bins() == 1 ? 0 : exchange.BinOf(m_worker, frame.src, position);
        binDone |= --state.pending[static_cast<std::size_t>(m_worker) * exchange.Bins() + bin] == 0;
        if (frame.payload != kNone)
        {
            const std::uint32_t offset = frame.chunk * exchange.HostValues();
            const std::uint32_t count = exchange.ValuesIn(frame.chunk, exchange.HostValues());
            const std::int32_t* values = m_fabric.values.At(frame.payload) + static_cast<std::size_t>(i) * exchange.Width();
            for (const auto slot : exchange.EntryNeighbours(exchange.FlowEntry(position)))
            {
                std::int64_t* result = m_runner.Results(frame.tag) +
                                       static_cast<std::size_t>(exchange.BoundaryIndex(slot)) * exchange.Width() + offset;
                for (std::uint32_t k = 0; k < count; ++k)
                {
                    result[k] += values[k];
                }
            }
        }
    }
    if (!m_awaited.empty() && m_awaited.front().tag == frame.tag)
    {
        m_lastProgress = now;
        m_backoff = 0;
    }
    if (binDone)
    {
        m_runner.OnHostBasedBin(m_worker, frame.tag, now);
    }
}

// Who counts this worker's reports of a block.
std::uint16_t
Host::ReportTo(std::uint32_t tag) const
{
    const Config& config = m_fabric.config;
    return config.wire_protocol ? static_cast<std::uint16_t>(config.workers + m_aggregation.LeafOf(m_worker))
                                : m_runner.RootOf(tag);
}

void
Host::AfterInNetworkProgress(Ps now)
{
    m_lastProgress = now;
    m_backoff = 0;
    FinishIfDone(now);
}

void
Host::FinishIfDone(Ps now)
{
    const std::uint32_t tag = m_uploads.tag;
    if (m_finishSent || !m_uploads.done || tag == Aggregation::kNoTag || tag != m_aggregation.Tag())
    {
        return;
    }
    if (!m_sentReported)
    {
        m_sentReported = true;
        SendControl(Kind::Finish, ReportTo(tag), 0, tag, kSentOnly, now);
    }
    // A switch that counts one barrier after the other cannot be told of the second before the first is through.
    if (m_aggregation.Pending(m_worker) > 0 || (m_fabric.config.wire_protocol && !m_allSent))
    {
        return;
    }
    m_finishSent = true;
    SendControl(Kind::Finish, ReportTo(tag), 0, tag, 0, now);
    m_runner.OnInNetworkDone(m_worker, tag, now);
}

// DCQCN's notification point (section 3.2): at most one CNP per sender and interval. A result blames the sender of its last
// contribution: the result is that packet, recirculated.
void
Host::EchoCongestion(const Frame& frame, Ps now)
{
    const bool background = frame.kind == Kind::Background;
    Ps& last = m_lastCnp[frame.src + (background ? m_fabric.config.workers : 0)];
    if (frame.src >= m_fabric.config.workers || now - last < m_fabric.config.cnp_interval_ns * kPsPerNs)
    {
        return;
    }
    last = now;
    std::uint8_t flags = 0;
    if (background)
    {
        flags = kBackgroundFlow;
    }
    else if (frame.kind != Kind::Raw || (frame.flags & kBypassed))
    {
        flags = kBypassed;
    }
    ++m_fabric.counters.cnps;
    SendControl(Kind::Cnp, frame.src, frame.item, frame.tag, flags, now);
}

void
Host::OnCnp(const Frame& frame, Ps now)
{
    Flow* flow = nullptr;
    if (frame.flags & kBackgroundFlow)
    {
        const auto found = m_background.find(frame.item);
        flow = found == m_background.end() ? nullptr : found->second.get();
    }
    else
    {
        flow = frame.flags & kBypassed ? &m_uploadFlow : &FlowTo(frame.src);
    }
    if (flow)
    {
        flow->rate.OnCnp(m_fabric.config, m_fabric.config.host_link_bps, flow == &m_uploadFlow, now);
    }
}

// ------------------------------------------------------------------------------------------------ timeout and pull

void
Host::OnTimer(Ps now)
{
    if (m_awaited.empty())
    {
        return;
    }
    const Awaited awaited = m_awaited.front();
    const Ps due = m_lastProgress + (awaited.rto << m_backoff);
    if (now < due)
    {
        m_fabric.events.Arm(m_timer.source, due);
        return;
    }
    m_backoff = std::min(m_backoff + 1, 8u);
    m_lastProgress = now;
    m_fabric.events.Arm(m_timer.source, now + (awaited.rto << m_backoff));
    if (!m_runner.ExchangeOf(awaited.tag).HostBased())
    {
        // In a dense block nothing completes before the last uploads, so silence means loss only once all have left;
        // until then (and after this worker is done) the timer guards the control frames.
        if (!m_uploads.done)
        {
            return;
        }
        if (m_finishSent || !m_allSent)
        {
            const auto flags = static_cast<std::uint8_t>(m_finishSent ? 0 : kSentOnly);
            SendControl(Kind::Finish, ReportTo(awaited.tag), 0, awaited.tag, flags, now);
            return;
        }
    }
    ++m_fabric.counters.timeouts;
    PullMissing(awaited.tag);
}

void
Host::PullMissing(std::uint32_t tag)
{
    std::map<std::uint16_t, std::vector<PullItem>> missing; // by the worker that has it
    if (m_runner.ExchangeOf(tag).HostBased())
    {
        PullMissingHostBased(tag, missing);
    }
    else
    {
        PullMissingInNetwork(missing);
    }
    const Config& config = m_fabric.config;
    constexpr std::uint32_t ethernet = 18;
    const std::size_t most = (config.mtu_bytes + ethernet - config.frame_overhead_bytes) / config.pull_entry_bytes;
    const Ps now = m_fabric.events.Now();
    for (auto& [worker, items] : missing)
    {
        for (std::size_t first = 0; first < items.size(); first += most)
        {
            const std::size_t count = std::min(most, items.size() - first);
            Frame frame{};
            frame.kind = Kind::Pull;
            frame.src = static_cast<std::uint16_t>(m_worker);
            frame.dst = worker;
            frame.tag = tag;
            frame.bytes = static_cast<std::uint16_t>(
                std::max<std::size_t>(64, config.frame_overhead_bytes + count * config.pull_entry_bytes));
            const auto begin = items.begin() + static_cast<std::ptrdiff_t>(first);
            frame.payload = m_fabric.pulls.Add({begin, begin + static_cast<std::ptrdiff_t>(count)});
            ++m_fabric.counters.pulls;
            m_control.Push(frame);
        }
    }
    Kick(now);
}

void
Host::PullMissingInNetwork(std::map<std::uint16_t, std::vector<PullItem>>& missing)
{
    m_aggregation.PrepareRaw();
    const Exchange& exchange = m_aggregation.Current();
    for (std::uint32_t chunk = 0; chunk < exchange.Chunks(); ++chunk)
    {
        for (const auto slot : exchange.OwnSlots(m_worker))
        {
            if (m_aggregation.IsDone(slot, chunk))
            {
                continue;
            }
            if (m_fabric.config.presum)
            {
                for (auto entry = exchange.EntryBegin(slot); entry < exchange.EntryEnd(slot); ++entry)
                {
                    const std::uint32_t rack = m_aggregation.LeafOf(exchange.EntryWorker(entry));
                    if (!m_aggregation.IsRaw(entry, chunk) && !m_aggregation.IsCovered(rack, slot, chunk))
                    {
                        missing[exchange.EntryWorker(entry)].push_back({entry, chunk});
                    }
                }
                continue;
            }
            for (const auto neighbour : exchange.Neighbours(slot))
            {
                const auto source = static_cast<std::uint32_t>(neighbour);
                const std::uint32_t entry = exchange.FindEntry(source, m_worker);
                if (!m_aggregation.IsRaw(entry, chunk) &&
                    !m_aggregation.IsCovered(m_aggregation.HomeLeaf(source), slot, chunk))
                {
                    missing[exchange.Owner(source)].push_back({entry, chunk});
                }
            }
        }
    }
    // vertices that several missing sums share are asked for once
    for (auto& [worker, items] : missing)
    {
        const auto key = [](const PullItem& item) { return (static_cast<std::uint64_t>(item.entry) << 32) | item.chunk; };
        std::sort(items.begin(), items.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
        items.erase(std::unique(items.begin(), items.end(), [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                    items.end());
    }
}

void
Host::PullMissingHostBased(std::uint32_t tag, std::map<std::uint16_t, std::vector<PullItem>>& missing)
{
    const HostBasedState* state = m_runner.HostBased(tag, false);
    if (!state)
    {
        return;
    }
    const Exchange& exchange = state->exchange;
    for (std::uint32_t sender = 0; sender < m_fabric.config.workers; ++sender)
    {
        for (auto position = exchange.FlowBegin(m_worker, sender); position < exchange.FlowEnd(m_worker, sender); ++position)
        {
            for (std::uint32_t chunk = 0; chunk < exchange.HostChunks(); ++chunk)
            {
                if (!state->IsMarked(position, chunk))
                {
                    missing[static_cast<std::uint16_t>(sender)].push_back({static_cast<std::uint32_t>(position), chunk});
                }
            }
        }
    }
}

void
Host::OnPull(const Frame& frame, Ps now)
{
    const Exchange& exchange = m_runner.ExchangeOf(frame.tag);
    Flow& flow = FlowTo(frame.src);
    if (!exchange.HostBased())
    {
        // What is still to be uploaded will come by itself.
        if (frame.tag != m_aggregation.Tag() || m_uploads.tag != frame.tag || !m_uploads.done)
        {
            return;
        }
        for (const PullItem& item : m_fabric.pulls.At(frame.payload))
        {
            flow.replies.Push({frame.tag, item.entry, item.chunk});
        }
    }
    else
    {
        const Segment* unsent = nullptr;
        for (std::size_t i = 0; i < flow.segments.Size(); ++i)
        {
            unsent = flow.segments[i].tag == frame.tag ? &flow.segments[i] : unsent;
        }
        if (m_releasedTag == Aggregation::kNoTag || frame.tag > m_releasedTag)
        {
            return;
        }
        for (const PullItem& item : m_fabric.pulls.At(frame.payload))
        {
            if (!unsent || item.entry < unsent->next)
            {
                flow.replies.Push({frame.tag, item.entry, item.chunk});
            }
        }
    }
    if (HasData(flow))
    {
        Activate(flow, now);
    }
}

// ------------------------------------------------------------------------------------------------ background traffic

void
Host::StartBackground(Ps now)
{
    if (m_fabric.config.background_load > 0)
    {
        NextBackgroundFlow(now);
    }
}

// Poisson arrivals of flows whose sizes follow the configured distribution, towards uniformly random other workers.
void
Host::NextBackgroundFlow(Ps now)
{
    const Config& config = m_fabric.config;
    const auto& sizes = config.background_bytes;
    const auto& cdf = config.background_cdf;
    double mean = sizes.front() * cdf.front();
    for (std::size_t i = 1; i < sizes.size(); ++i)
    {
        mean += (cdf[i] - cdf[i - 1]) * (sizes[i] + sizes[i - 1]) / 2;
    }
    const double seconds = -std::log(1 - m_backgroundRandom.Uniform()) * mean * 8 / (config.background_load * config.host_link_bps);
    m_fabric.events.Arm(m_backgroundClock.source, now + std::max<Ps>(1, static_cast<Ps>(seconds * 1e12)));
    if (!m_backgroundOn)
    {
        m_backgroundOn = true; // the first call only starts the process
        return;
    }

    const double draw = m_backgroundRandom.Uniform();
    std::size_t upper = static_cast<std::size_t>(std::lower_bound(cdf.begin(), cdf.end(), draw) - cdf.begin());
    upper = std::min(upper, cdf.size() - 1);
    double size = sizes[upper];
    if (upper > 0 && cdf[upper] > cdf[upper - 1])
    {
        size = sizes[upper - 1] + (sizes[upper] - sizes[upper - 1]) * (draw - cdf[upper - 1]) / (cdf[upper] - cdf[upper - 1]);
    }
    auto flow = std::make_unique<Flow>();
    flow->id = m_nextBackgroundId++;
    flow->backgroundBytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(size));
    std::uint32_t destination = m_backgroundRandom.Below(config.workers - 1);
    destination += destination >= m_worker;
    flow->destination = static_cast<std::uint16_t>(destination);
    ++m_fabric.counters.backgroundFlows;
    Flow& reference = *flow;
    m_background.emplace(reference.id, std::move(flow));
    Activate(reference, now);
}

} // namespace netfold
