#include "switch-node.h"

#include <algorithm>

namespace netfold
{

SwitchNode::SwitchNode(Fabric& fabric, Aggregation& aggregation, Barriers& barriers, Role role, std::uint32_t index)
    : m_fabric(fabric),
      m_aggregation(aggregation),
      m_barriers(barriers),
      m_role(role),
      m_index(index),
      m_hostsPerLeaf(fabric.config.workers / fabric.config.leaves),
      m_address(static_cast<std::uint16_t>(fabric.config.workers + (role == Role::Spine ? fabric.config.leaves : 0) + index)),
      m_serve(*this, &SwitchNode::ServePasses),
      m_emit(*this, &SwitchNode::EmitDue),
      m_pauseTimer(*this, &SwitchNode::ApplyPause),
      m_resumeTimer(*this, &SwitchNode::CheckResume)
{
    const Config& config = fabric.config;
    if (config.recirculation_limited)
    {
        m_passPs = static_cast<Ps>(1e12 / config.pass_rate_pps + 0.5);
        m_recirculatePsPerByteQ8 = static_cast<Ps>(8e12 / config.recirculation_bps * 256 + 0.5);
    }
}

void
SwitchNode::Connect(std::vector<Port*> egress, std::vector<Port*> upstream)
{
    m_egress = std::move(egress);
    m_upstream = std::move(upstream);
    m_buffered.resize(m_egress.size());
    m_left.assign(m_egress.size(), 0);
    m_ingressBytes.assign(m_upstream.size(), 0);
    m_ingressPaused.assign(m_upstream.size(), false);
}

void
SwitchNode::Receive(Frame& frame, std::uint32_t ingress, Ps now)
{
    if (frame.dst != m_address)
    {
        Forward(frame, ingress, now);
        return;
    }
    switch (frame.kind)
    {
    case Kind::Upload:
        OnUpload(frame, ingress, now);
        break;
    case Kind::Partial:
        OnPartial(frame, ingress, now);
        break;
    case Kind::Presum:
        OnPresum(frame, ingress, now);
        break;
    case Kind::Finish:
        m_fabric.config.wire_protocol ? OnReport(frame, ingress, now) : OnFinish(frame, ingress, now);
        break;
    case Kind::Complete:
        m_fabric.config.wire_protocol ? OnCompletion(frame, ingress, now) : OnComplete(frame, ingress, now);
        break;
    default:
        m_fabric.Consume(frame); // nothing else is ever addressed to a switch
    }
}

// --------------------------------------------------------------------------------------------------- forwarding

std::uint32_t
SwitchNode::Route(const Frame& frame)
{
    const Config& config = m_fabric.config;
    const bool toSwitch = frame.dst >= config.workers;
    if (m_role == Role::Spine)
    {
        return toSwitch ? frame.dst - config.workers : LeafOf(frame.dst);
    }
    if (!toSwitch && LeafOf(frame.dst) == m_index)
    {
        return frame.dst - m_index * m_hostsPerLeaf;
    }
    if (frame.dst >= config.workers + config.leaves)
    {
        return m_hostsPerLeaf + (frame.dst - config.workers - config.leaves); // that spine
    }
    if (config.ecmp_by_destination)
    {
        const bool partial = frame.kind == Kind::Partial && frame.item < m_aggregation.Current().Slots();
        return m_hostsPerLeaf + (partial ? m_aggregation.Current().Owner(frame.item) : frame.dst) % config.spines;
    }
    // ECMP over the spines. In-network frames carry their vertex in the UDP source port (RoCEv2's entropy field), so they
    // spread by vertex; host-based flows keep one path unless packets are sprayed.
    std::uint64_t key = (static_cast<std::uint64_t>(frame.src) << 48) | (static_cast<std::uint64_t>(frame.dst) << 32);
    if (config.ecmp_per_packet)
    {
        key ^= ++m_sprayed;
    }
    else if (frame.kind == Kind::Upload || frame.kind == Kind::Partial || frame.kind == Kind::Presum)
    {
        key = (static_cast<std::uint64_t>(m_address) << 48) | frame.item;
    }
    return m_hostsPerLeaf + static_cast<std::uint32_t>(Mix64(key ^ config.seed) % config.spines);
}

void
SwitchNode::Send(const Frame& frame, std::uint32_t egress, std::uint32_t ingress, Ps now)
{
    const Config& config = m_fabric.config;
    if (config.buffer_bytes)
    {
        Drain(now);
        if (m_bufferBytes + m_recirculationBytes + frame.bytes > config.buffer_bytes)
        {
            ++m_fabric.counters.drops;
            m_fabric.Consume(frame);
            return;
        }
        m_bufferBytes += frame.bytes;
        m_ingressBytes[ingress] += frame.bytes;
        m_buffered[egress].Push({ingress, frame.bytes});
        m_egress[egress]->Enqueue(frame, now);
        if (config.pfc)
        {
            CheckPause(ingress, now);
        }
        return;
    }
    m_egress[egress]->Enqueue(frame, now);
}

void
SwitchNode::OnFinish(const Frame& frame, std::uint32_t ingress, Ps now)
{
    Reach(m_barriers.sent, frame, kSentOnly, ingress, now); // who has finished has sent, even if that report was lost
    if (!(frame.flags & kSentOnly))
    {
        Reach(m_barriers.finished, frame, 0, ingress, now);
    }
}

void
SwitchNode::Reach(Barrier& barrier, const Frame& frame, std::uint8_t flags, std::uint32_t ingress, Ps now)
{
    const Config& config = m_fabric.config;
    Frame complete{};
    complete.payload = kNone;
    complete.kind = Kind::Complete;
    complete.flags = flags;
    complete.bytes = static_cast<std::uint16_t>(config.control_frame_bytes);
    complete.src = m_address;
    complete.tag = frame.tag;

    if (barrier.completed != Aggregation::kNoTag && frame.tag <= barrier.completed)
    {
        if (flags != (frame.flags & kSentOnly))
        {
            return; // a finish says in passing that sending is over: nobody waits for an answer to that
        }
        complete.dst = frame.src; // this worker missed the completion
        Forward(complete, ingress, now);
        return;
    }
    if (barrier.tag != frame.tag)
    {
        barrier.tag = frame.tag;
        barrier.reached.assign(config.workers, false);
        barrier.count = 0;
    }
    if (barrier.reached[frame.src])
    {
        return;
    }
    barrier.reached[frame.src] = true;
    if (++barrier.count < config.workers)
    {
        return;
    }
    barrier.completed = frame.tag;
    if (m_role == Role::Leaf)
    {
        OnComplete(complete, ingress, now);
        return;
    }
    for (std::uint32_t leaf = 0; leaf < config.leaves; ++leaf)
    {
        complete.dst = LeafAddress(leaf);
        Send(complete, leaf, ingress, now);
    }
}

void
SwitchNode::OnComplete(const Frame& frame, std::uint32_t ingress, Ps now)
{
    Frame copy = frame;
    for (std::uint32_t i = 0; i < m_hostsPerLeaf; ++i)
    {
        copy.dst = static_cast<std::uint16_t>(m_index * m_hostsPerLeaf + i);
        Send(copy, i, ingress, now);
    }
}

// ------------------------------------------------------------------- reports and completions as switchgnn.p4 has them

Reports&
SwitchNode::ReportsOf(const Frame& frame)
{
    const std::uint32_t job = m_barriers.jobOf[frame.tag];
    if (job >= m_reports.size())
    {
        m_reports.resize(job + 1);
    }
    Reports& reports = m_reports[job];
    reports.last.resize(m_role == Role::Leaf ? m_hostsPerLeaf : m_fabric.config.leaves, 0);
    return reports;
}

namespace
{

// Barriers in their order: a block's two, one after the other.
std::uint64_t
BarrierOf(const Frame& frame)
{
    return 2 * static_cast<std::uint64_t>(frame.tag) + (frame.flags & kSentOnly ? 0 : 1) + 1;
}

} // namespace

void
SwitchNode::OnReport(const Frame& frame, std::uint32_t ingress, Ps now)
{
    const Config& config = m_fabric.config;
    const bool leaf = m_role == Role::Leaf;
    Reports& reports = ReportsOf(frame);
    const auto below = static_cast<std::uint32_t>(reports.last.size());
    const std::uint32_t me = leaf ? frame.src - m_index * m_hostsPerLeaf : ingress;
    const std::uint64_t barrier = BarrierOf(frame);
    bool complete = false;
    bool again = false;
    if (reports.counting != 0 && barrier < reports.counting)
    {
        again = true; // a later block has begun, so this one was completed
    }
    else if (barrier != reports.counting && reports.counting != 0 && reports.count != below)
    {
        return; // nobody can be done with a block before its turn
    }
    else if (barrier != reports.counting || (reports.last[me] != barrier && reports.count != below))
    {
        reports.count = barrier != reports.counting ? 1 : reports.count + 1;
        reports.last[me] = barrier;
        reports.counting = barrier;
        complete = reports.count == below;
    }
    else
    {
        again = reports.count == below;
    }

    Frame answer = frame;
    answer.flags &= kSentOnly | kCongestionExperienced;
    if (leaf && config.spines && (complete || (again && barrier == reports.counting)))
    {
        const std::uint32_t root = (m_barriers.jobOf[frame.tag] + 1) % config.spines;
        answer.dst = static_cast<std::uint16_t>(config.workers + config.leaves + root);
        Forward(answer, ingress, now);
        return;
    }
    answer.kind = Kind::Complete;
    answer.src = m_address;
    if (complete)
    {
        for (std::uint32_t i = 0; i < below; ++i)
        {
            answer.dst = leaf ? static_cast<std::uint16_t>(m_index * m_hostsPerLeaf + i) : LeafAddress(i);
            Send(answer, i, ingress, now);
        }
    }
    else if (again)
    {
        answer.dst = leaf ? frame.src : LeafAddress(ingress);
        Send(answer, me, ingress, now);
    }
}

// From above, for this leaf's workers.
void
SwitchNode::OnCompletion(const Frame& frame, std::uint32_t ingress, Ps now)
{
    Reports& reports = ReportsOf(frame);
    const std::uint64_t barrier = BarrierOf(frame);
    if (barrier >= reports.counting)
    {
        reports.counting = barrier;
        reports.count = m_hostsPerLeaf;
    }
    OnComplete(frame, ingress, now);
}

// -------------------------------------------------------------------------------------------------- aggregation

void
SwitchNode::OnUpload(Frame& frame, std::uint32_t ingress, Ps now)
{
    if (frame.tag != m_aggregation.Tag() || (frame.flags & kResend))
    {
        ++m_fabric.counters.stale;
        m_fabric.Consume(frame);
        return;
    }
    if (m_role == Role::Spine)
    {
        ReplicateUpload(frame, ingress, now);
        return;
    }
    if (m_fabric.config.multicast_home && !(frame.flags & kHomeLevel) && m_fabric.config.leaves > 1)
    {
        ReplicateUpload(frame, ingress, now);
    }
    if (m_fabric.config.recirculation_limited)
    {
        QueueForPasses(frame, ingress, now);
        return;
    }
    Aggregate(frame, ingress, now);
    m_fabric.Consume(frame);
}

// A leaf sends one copy to a spine, the spine one copy to each other leaf whose workers own a neighbour.
void
SwitchNode::ReplicateUpload(const Frame& frame, std::uint32_t ingress, Ps now)
{
    const Config& config = m_fabric.config;
    const Exchange& exchange = m_aggregation.Current();
    const std::uint32_t origin = LeafOf(frame.src);
    std::uint32_t last = kNone;
    for (auto entry = exchange.EntryBegin(frame.item); entry < exchange.EntryEnd(frame.item); ++entry)
    {
        const std::uint32_t leaf = LeafOf(exchange.EntryWorker(entry));
        if (leaf == origin || leaf == last)
        {
            continue;
        }
        last = leaf;
        Frame copy = frame;
        m_fabric.values.Retain(copy.payload);
        if (m_role == Role::Leaf)
        {
            copy.dst = static_cast<std::uint16_t>(config.workers + config.leaves + Mix64(frame.item ^ config.seed) % config.spines);
            Forward(copy, ingress, now);
            return;
        }
        copy.dst = LeafAddress(leaf);
        copy.flags |= kHomeLevel;
        Send(copy, leaf, ingress, now);
    }
    if (m_role == Role::Spine)
    {
        m_fabric.Consume(frame);
    }
}

std::uint32_t
SwitchNode::LocalPasses(const Frame& frame) const
{
    const Exchange& exchange = m_aggregation.Current();
    if (!m_fabric.config.multicast_home && !m_fabric.config.first_come)
    {
        return exchange.Degree(frame.item);
    }
    const auto [begin, end] = PassEntries(frame.item);
    std::uint32_t passes = 0;
    for (auto entry = begin; entry < end; ++entry)
    {
        passes += static_cast<std::uint32_t>(exchange.EntryNeighbours(entry).size());
    }
    return passes;
}

// Within a pipeline's limits, uploads wait their turn: an upload with d neighbours occupies the pipeline for d passes, of
// which d-1 cross the recirculation ports. Its additions are applied when its service begins and its results leave at
// their pass's time.
void
SwitchNode::QueueForPasses(const Frame& frame, std::uint32_t ingress, Ps now)
{
    if (m_fabric.config.buffer_bytes)
    {
        Drain(now);
        if (m_bufferBytes + m_recirculationBytes + frame.bytes > m_fabric.config.buffer_bytes)
        {
            ++m_fabric.counters.drops;
            m_fabric.Consume(frame);
            return;
        }
        m_ingressBytes[ingress] += frame.bytes;
    }
    m_recirculationBytes += frame.bytes;
    m_recirculationPeak = std::max(m_recirculationPeak, m_recirculationBytes);
    m_waiting.Push({frame, ingress});
    if (m_waiting.Size() == 1)
    {
        m_fabric.events.Arm(m_serve.source, std::max(now, m_servedUntil));
    }
    if (m_fabric.config.buffer_bytes && m_fabric.config.pfc)
    {
        CheckPause(ingress, now);
    }
}

void
SwitchNode::ServePasses(Ps now)
{
    const Waiting next = m_waiting.Pop();
    const Frame& frame = next.frame;
    m_recirculationBytes -= frame.bytes;
    if (m_fabric.config.buffer_bytes)
    {
        m_ingressBytes[next.ingress] -= frame.bytes;
    }
    if (frame.tag == m_aggregation.Tag())
    {
        const std::uint32_t passes = std::max(1u, LocalPasses(frame));
        const Ps wireBytes = frame.bytes + m_fabric.config.wire_gap_bytes;
        const Ps service = std::max<Ps>(passes * m_passPs, (passes - 1) * ((wireBytes * m_recirculatePsPerByteQ8) >> 8));
        m_servedUntil = now + service;
        m_stepPs = service / passes;
        Aggregate(frame, next.ingress, now);
    }
    else
    {
        ++m_fabric.counters.stale;
        m_servedUntil = now + m_passPs;
    }
    m_fabric.Consume(frame);
    if (!m_waiting.Empty())
    {
        m_fabric.events.Arm(m_serve.source, m_servedUntil);
    }
}

std::pair<std::uint32_t, std::uint32_t>
SwitchNode::PassEntries(std::uint32_t slot) const
{
    const Exchange& exchange = m_aggregation.Current();
    std::uint32_t begin = exchange.EntryBegin(slot);
    const std::uint32_t end = exchange.EntryEnd(slot);
    if (!m_fabric.config.multicast_home)
    {
        return {begin, end};
    }
    // entries are ascending in the worker, so a rack's are contiguous
    const auto partition = [&](std::uint32_t from, std::uint32_t bound) {
        std::uint32_t count = end - from;
        while (count > 0)
        {
            const std::uint32_t half = count / 2;
            if (exchange.EntryWorker(from + half) < bound)
            {
                from += half + 1;
                count -= half + 1;
            }
            else
            {
                count = half;
            }
        }
        return from;
    };
    begin = partition(begin, m_index * m_hostsPerLeaf);
    return {begin, partition(begin, (m_index + 1) * m_hostsPerLeaf)};
}

void
SwitchNode::Aggregate(const Frame& frame, std::uint32_t ingress, Ps now)
{
    if (m_fabric.config.first_come)
    {
        AddFirstCome(frame, ingress, now);
    }
    else
    {
        AddToReserved(frame, ingress, now);
    }
}

void
SwitchNode::AddValues(std::size_t index, const Frame& frame)
{
    const std::uint32_t count = m_fabric.config.values_per_packet;
    std::int32_t* sums = m_aggregation.Leaf(m_index).sums.data() + index * count;
    const std::int32_t* values = m_fabric.values.At(frame.payload);
    for (std::uint32_t i = 0; i < count; ++i)
    {
        if (__builtin_add_overflow(sums[i], values[i], &sums[i]))
        {
            sums[i] = values[i] < 0 ? INT32_MIN : INT32_MAX;
            ++m_fabric.counters.saturated;
        }
    }
}

// The plan's slots: every vertex of the block has its aggregator.
void
SwitchNode::AddToReserved(const Frame& frame, std::uint32_t ingress, Ps now)
{
    const Exchange& exchange = m_aggregation.Current();
    const std::size_t stripe = m_aggregation.Index(0, frame.chunk);
    std::uint32_t* remaining = m_aggregation.Leaf(m_index).remaining.data() + stripe;
    const bool valued = m_fabric.config.value_mode;
    const auto add = [&](std::span<const std::int32_t> neighbours, std::uint32_t pass) {
        for (const auto slot : neighbours)
        {
            if (valued) [[unlikely]]
            {
                AddValues(stripe + slot, frame);
            }
            if (--remaining[slot] == 0) [[unlikely]]
            {
                CompleteSlot(slot, frame, pass, ingress, now);
            }
            ++pass;
        }
        return pass;
    };
    std::uint32_t passes = 0;
    if (m_fabric.config.multicast_home)
    {
        const auto [begin, end] = PassEntries(frame.item);
        for (auto entry = begin; entry < end; ++entry)
        {
            passes = add(exchange.EntryNeighbours(entry), passes);
        }
    }
    else
    {
        passes = add(exchange.Neighbours(frame.item), 0);
    }
    Counters& counters = m_fabric.counters;
    counters.contributions += passes;
    counters.passes += passes;
    counters.recirculatedPasses += passes > 0 ? passes - 1 : 0;
}

// First come, first served: a vertex gets an aggregator of this leaf at its first contribution here, or never.
SlotState&
SwitchNode::Claim(std::uint32_t slot, std::size_t index)
{
    LeafAggregators& leaf = m_aggregation.Leaf(m_index);
    SlotState& state = leaf.state[index];
    if (state != SlotState::Free)
    {
        return state;
    }
    if (leaf.freeSlots == 0)
    {
        state = SlotState::Bypassed;
        return state;
    }
    state = SlotState::Held;
    --leaf.freeSlots;
    const Exchange& exchange = m_aggregation.Current();
    const bool home = m_aggregation.HomeLeaf(slot) == m_index;
    if (m_fabric.config.presum)
    {
        leaf.remaining[index] = home ? exchange.EntryEnd(slot) - exchange.EntryBegin(slot)
                                     : m_aggregation.RackContributions(m_index, slot);
    }
    else if (m_fabric.config.multicast_home)
    {
        leaf.remaining[index] = exchange.Degree(slot);
    }
    else
    {
        // this rack's contributions and, at home, one partial sum (or word that there is none) from each other rack
        const std::uint32_t local = m_aggregation.RackContributions(m_index, slot);
        leaf.remaining[index] = local + (home ? m_aggregation.Racks(slot) - (local > 0) : 0);
    }
    return state;
}

void
SwitchNode::AddFirstCome(const Frame& frame, std::uint32_t ingress, Ps now)
{
    const Exchange& exchange = m_aggregation.Current();
    LeafAggregators& leaf = m_aggregation.Leaf(m_index);
    const std::size_t stripe = m_aggregation.Index(0, frame.chunk);
    std::uint32_t pass = 0;
    std::uint64_t bypassed = 0;
    const auto [begin, end] = PassEntries(frame.item);
    for (auto entry = begin; entry < end; ++entry)
    {
        bool forward = false;
        for (const auto slot : exchange.EntryNeighbours(entry))
        {
            const std::size_t index = stripe + slot;
            const bool first = leaf.state[index] == SlotState::Free;
            SlotState& state = Claim(slot, index);
            if (state == SlotState::Held)
            {
                if (m_fabric.config.value_mode)
                {
                    AddValues(index, frame);
                }
                if (--leaf.remaining[index] == 0)
                {
                    state = SlotState::Done;
                    ++leaf.freeSlots;
                    CompleteSlot(slot, frame, pass, ingress, now);
                }
            }
            else
            {
                forward = true;
                ++bypassed;
                if (first && m_aggregation.HomeLeaf(slot) != m_index)
                {
                    TellBypassed(slot, frame, pass, ingress, now);
                }
            }
            ++pass;
        }
        if (forward)
        {
            Frame raw = frame;
            raw.kind = Kind::Raw;
            raw.item = entry;
            raw.dst = exchange.EntryWorker(entry);
            raw.flags = static_cast<std::uint8_t>((raw.flags & kCongestionExperienced) | kBypassed);
            m_fabric.values.Retain(raw.payload);
            Emit(raw, pass, ingress, now);
        }
    }
    Counters& counters = m_fabric.counters;
    counters.contributions += pass;
    counters.bypassed += bypassed;
    counters.passes += pass;
    counters.recirculatedPasses += pass > 0 ? pass - 1 : 0;
}

// This rack's contributions to a vertex will come raw: its owner's leaf must not wait for their sum.
void
SwitchNode::TellBypassed(std::uint32_t slot, const Frame& last, std::uint32_t pass, std::uint32_t ingress, Ps now)
{
    Frame notice = last;
    notice.kind = Kind::Partial;
    notice.item = slot;
    notice.payload = kNone;
    notice.flags = kBypassed | kHomeLevel;
    notice.bytes = static_cast<std::uint16_t>(m_fabric.config.control_frame_bytes);
    notice.dst = LeafAddress(m_aggregation.HomeLeaf(slot));
    Emit(notice, pass, ingress, now);
}

void
SwitchNode::OnPartial(const Frame& frame, std::uint32_t ingress, Ps now)
{
    if (frame.tag != m_aggregation.Tag())
    {
        ++m_fabric.counters.stale;
        m_fabric.Consume(frame);
        return;
    }
    if (m_fabric.config.presum)
    {
        OnPresum(frame, ingress, now);
        return;
    }
    ++m_fabric.counters.passes;
    const std::size_t index = m_aggregation.Index(frame.item, frame.chunk);
    LeafAggregators& leaf = m_aggregation.Leaf(m_index);
    const bool notice = frame.flags & kBypassed;
    if (m_fabric.config.first_come)
    {
        if (notice && !m_aggregation.SetRawRack(LeafOf(frame.src), index))
        {
            return; // cannot happen twice: a leaf tells once
        }
        if (Claim(frame.item, index) != SlotState::Held)
        {
            if (!notice)
            {
                Frame onward = frame;
                onward.dst = m_aggregation.Current().Owner(frame.item);
                Forward(onward, ingress, now);
            }
            return;
        }
    }
    if (m_fabric.config.value_mode && !notice)
    {
        AddValues(index, frame);
    }
    if (--leaf.remaining[index] == 0)
    {
        if (m_fabric.config.first_come)
        {
            leaf.state[index] = SlotState::Done;
            ++leaf.freeSlots;
        }
        CompleteSlot(frame.item, frame, 0, ingress, now);
    }
    m_fabric.Consume(frame);
}

// One partial sum of a worker (or a rack's aggregate of them) into its vertex's aggregator, in a single pass.
void
SwitchNode::OnPresum(const Frame& frame, std::uint32_t ingress, Ps now)
{
    Counters& counters = m_fabric.counters;
    if (frame.tag != m_aggregation.Tag())
    {
        ++counters.stale;
        m_fabric.Consume(frame);
        return;
    }
    const std::uint32_t slot = frame.item;
    const std::uint32_t home = m_aggregation.HomeLeaf(slot);
    const std::uint32_t weight =
        frame.kind == Kind::Presum ? 1 : m_aggregation.RackContributions(LeafOf(frame.src), slot);
    const std::size_t index = m_aggregation.Index(slot, frame.chunk);
    LeafAggregators& leaf = m_aggregation.Leaf(m_index);
    if (!(frame.flags & kHomeLevel) && frame.kind == Kind::Presum)
    {
        ++counters.contributions;
    }
    if (m_fabric.config.multicast_home && home != m_index)
    {
        Frame onward = frame; // no rack partial sums: straight to the owner's leaf
        onward.dst = LeafAddress(home);
        onward.flags |= kHomeLevel;
        Forward(onward, ingress, now);
        return;
    }
    ++counters.passes;
    SlotState& state = Claim(slot, index);
    if (state == SlotState::Held)
    {
        if (m_fabric.config.value_mode)
        {
            AddValues(index, frame);
        }
        leaf.remaining[index] -= weight;
        if (leaf.remaining[index] == 0)
        {
            state = SlotState::Done;
            ++leaf.freeSlots;
            CompleteSlot(slot, frame, 0, ingress, now);
        }
        m_fabric.Consume(frame);
        return;
    }
    Frame forwarded = frame;
    forwarded.flags |= kHomeLevel | kBypassed;
    if (home == m_index)
    {
        forwarded.dst = m_aggregation.Current().Owner(slot);
        counters.bypassed += weight;
    }
    else
    {
        forwarded.dst = LeafAddress(home);
    }
    Forward(forwarded, ingress, now);
}

void
SwitchNode::CompleteSlot(std::uint32_t slot, const Frame& last, std::uint32_t pass, std::uint32_t ingress, Ps now)
{
    Frame frame = last;
    frame.item = slot;
    frame.flags &= kCongestionExperienced;
    const std::uint32_t home = m_aggregation.HomeLeaf(slot);
    if (home == m_index)
    {
        frame.kind = Kind::Result;
        frame.dst = m_aggregation.Current().Owner(slot);
        ++m_fabric.counters.results;
    }
    else
    {
        frame.kind = Kind::Partial;
        frame.dst = LeafAddress(home);
        frame.flags |= kHomeLevel;
    }
    if (m_fabric.config.value_mode)
    {
        const std::uint32_t count = m_fabric.config.values_per_packet;
        frame.payload = m_fabric.values.Allocate();
        std::copy_n(m_aggregation.Leaf(m_index).sums.data() + m_aggregation.Index(slot, last.chunk) * count,
                    count,
                    m_fabric.values.At(frame.payload));
    }
    const bool singlePass = last.kind != Kind::Upload;
    if (singlePass)
    {
        Forward(frame, ingress, now);
        return;
    }
    Emit(frame, pass, ingress, now);
}

void
SwitchNode::Emit(const Frame& frame, std::uint32_t pass, std::uint32_t ingress, Ps now)
{
    if (!m_fabric.config.recirculation_limited)
    {
        Forward(frame, ingress, now);
        return;
    }
    const Ps at = std::min(now + (pass + 1) * m_stepPs, m_servedUntil);
    m_emissions.Push({at, frame, ingress});
    if (m_emissions.Size() == 1)
    {
        m_fabric.events.Arm(m_emit.source, at);
    }
}

void
SwitchNode::EmitDue(Ps now)
{
    while (!m_emissions.Empty() && m_emissions.Front().at <= now)
    {
        const Emission emission = m_emissions.Pop();
        Forward(emission.frame, emission.ingress, now);
    }
    if (!m_emissions.Empty())
    {
        m_fabric.events.Arm(m_emit.source, m_emissions.Front().at);
    }
}

// --------------------------------------------------------------------------------- shared buffer and flow control

void
SwitchNode::Drain(Ps now)
{
    for (std::size_t egress = 0; egress < m_egress.size(); ++egress)
    {
        const std::uint64_t departed = m_egress[egress]->Departed(now);
        while (m_left[egress] < departed)
        {
            const Buffered buffered = m_buffered[egress].Pop();
            m_bufferBytes -= buffered.bytes;
            m_ingressBytes[buffered.ingress] -= buffered.bytes;
            ++m_left[egress];
        }
    }
}

// Priority flow control (IEEE 802.1Qbb): the link that fills an ingress past xoff is paused; the frame takes one link delay.
void
SwitchNode::CheckPause(std::uint32_t ingress, Ps now)
{
    const Config& config = m_fabric.config;
    if (m_ingressPaused[ingress] || m_ingressBytes[ingress] <= config.pfc_xoff_bytes)
    {
        return;
    }
    m_ingressPaused[ingress] = true;
    ++m_pausedCount;
    ++m_fabric.counters.pauses;
    m_pauseOrders.Push({now + config.link_delay_ns * kPsPerNs, ingress, true});
    if (m_pauseOrders.Size() == 1)
    {
        m_fabric.events.Arm(m_pauseTimer.source, m_pauseOrders.Front().at);
    }
    if (!m_fabric.events.IsArmed(m_resumeTimer.source))
    {
        CheckResume(now);
    }
}

void
SwitchNode::CheckResume(Ps now)
{
    const Config& config = m_fabric.config;
    Drain(now);
    for (std::uint32_t ingress = 0; ingress < m_ingressPaused.size(); ++ingress)
    {
        if (m_ingressPaused[ingress] && m_ingressBytes[ingress] < config.pfc_xon_bytes)
        {
            m_ingressPaused[ingress] = false;
            --m_pausedCount;
            m_pauseOrders.Push({now + config.link_delay_ns * kPsPerNs, ingress, false});
            if (m_pauseOrders.Size() == 1)
            {
                m_fabric.events.Arm(m_pauseTimer.source, m_pauseOrders.Front().at);
            }
        }
    }
    if (m_pausedCount == 0)
    {
        return;
    }
    Ps next = m_waiting.Empty() ? kNever : std::max(now + 1, m_servedUntil);
    for (Port* port : m_egress)
    {
        next = std::min(next, port->NextDeparture(now));
    }
    if (next == kNever)
    {
        // Every queue here is itself paused: look again after a while (the pause that holds us ends elsewhere).
        next = now + config.link_delay_ns * kPsPerNs + 1;
    }
    m_fabric.events.Arm(m_resumeTimer.source, next);
}

void
SwitchNode::ApplyPause(Ps now)
{
    while (!m_pauseOrders.Empty() && m_pauseOrders.Front().at <= now)
    {
        const PauseOrder order = m_pauseOrders.Pop();
        if (order.pause)
        {
            m_upstream[order.ingress]->Pause(now);
        }
        else
        {
            m_upstream[order.ingress]->Resume(now);
        }
    }
    if (!m_pauseOrders.Empty())
    {
        m_fabric.events.Arm(m_pauseTimer.source, m_pauseOrders.Front().at);
    }
}

} // namespace netfold
