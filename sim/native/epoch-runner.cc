#include "epoch-runner.h"

#include <algorithm>
#include <sstream>

namespace netfold
{

EpochRunner::ComputeTimer::ComputeTimer(EpochRunner& runner, std::uint32_t worker)
    : source(runner.m_fabric.events.Add(this)),
      m_runner(runner),
      m_worker(worker)
{
}

void
EpochRunner::ComputeTimer::Fire(Ps now)
{
    m_runner.OnPartDone(m_worker, now);
}

EpochRunner::EpochRunner(Fabric& fabric,
                         Aggregation& aggregation,
                         std::vector<Propagation>& propagations,
                         std::vector<Phase> phases)
    : m_fabric(fabric),
      m_aggregation(aggregation),
      m_propagations(propagations),
      m_phases(std::move(phases)),
      m_firstTag(m_phases.size(), 0),
      m_workers(fabric.config.workers),
      m_rows(m_phases.size() * fabric.config.workers),
      m_features(m_phases.size(), nullptr),
      m_results(m_phases.size())
{
    for (std::uint32_t phase = 0; phase < m_phases.size(); ++phase)
    {
        m_firstTag[phase] = static_cast<std::uint32_t>(m_tags.size());
        if (m_phases[phase].propagation < 0)
        {
            continue;
        }
        auto& exchanges = m_propagations[m_phases[phase].propagation].exchanges;
        for (std::uint32_t position = 0; position < exchanges.size(); ++position)
        {
            m_tags.push_back({phase, &exchanges[position], position, LowerBound(exchanges[position])});
        }
    }
    m_hostBased.resize(m_tags.size());
    for (auto& state : m_workers)
    {
        state.earlyBins.assign(m_phases.size(), 0);
    }
    for (std::uint32_t worker = 0; worker < fabric.config.workers; ++worker)
    {
        m_timers.push_back(std::make_unique<ComputeTimer>(*this, worker));
    }
}

void
EpochRunner::Connect(std::vector<Host*> hosts, std::function<void()> onEpochDone)
{
    m_hosts = std::move(hosts);
    m_onEpochDone = std::move(onEpochDone);
}

void
EpochRunner::SetFeatures(std::vector<const std::int32_t*> byPhase)
{
    m_features = std::move(byPhase);
    for (std::uint32_t phase = 0; phase < m_phases.size(); ++phase)
    {
        if (m_phases[phase].propagation >= 0)
        {
            const PlanArrays& plan = m_propagations[m_phases[phase].propagation].plan;
            m_results[phase].assign(plan.owner.size() * plan.width, 0);
        }
    }
}

// What the busiest resource needs for an exchange if nothing is lost: the base of the retransmission timeout.
Ps
EpochRunner::LowerBound(const Exchange& exchange) const
{
    const Config& config = m_fabric.config;
    const double workers = config.workers;
    double seconds = 0;
    if (exchange.HostBased())
    {
        const double bytes = 4.0 * exchange.Width() + exchange.HostChunks() * (config.frame_overhead_bytes + config.wire_gap_bytes);
        std::vector<std::uint64_t> sent(config.workers, 0);
        std::uint64_t most = 0;
        for (std::uint32_t receiver = 0; receiver < config.workers; ++receiver)
        {
            std::uint64_t received = 0;
            for (std::uint32_t sender = 0; sender < config.workers; ++sender)
            {
                const auto length = exchange.FlowEnd(receiver, sender) - exchange.FlowBegin(receiver, sender);
                received += length;
                sent[sender] += length;
            }
            most = std::max(most, received);
        }
        most = std::max(most, *std::max_element(sent.begin(), sent.end()));
        seconds = static_cast<double>(most) * bytes * 8 / config.host_link_bps;
        if (config.spines)
        {
            const double fabric = static_cast<double>(exchange.Entries()) * bytes * 8;
            seconds = std::max(seconds, fabric / (config.fabric_link_bps * config.leaves * config.spines));
        }
    }
    else
    {
        const double frameBits =
            8.0 * (config.frame_overhead_bytes + config.wire_gap_bytes + 4.0 * config.values_per_packet) * exchange.Chunks();
        std::size_t most = 0;
        for (std::uint32_t worker = 0; worker < config.workers; ++worker)
        {
            most = std::max(most, exchange.OwnSlots(worker).size());
        }
        double frames = static_cast<double>(most);
        if (config.first_come && exchange.EntriesIndexed())
        {
            frames = std::max(frames, 2.0 * exchange.Entries() / workers); // everything bypassed, twice the mean
        }
        seconds = frames * frameBits / config.host_link_bps;
        if (config.spines)
        {
            const double partials = static_cast<double>(exchange.Slots()) * config.leaves * frameBits;
            seconds = std::max(seconds, partials / (config.fabric_link_bps * config.leaves * config.spines));
        }
        if (config.recirculation_limited && !config.presum)
        {
            const double passes = static_cast<double>(exchange.Edges()) * exchange.Chunks() / config.leaves;
            const double each = std::max(1 / config.pass_rate_pps, frameBits / exchange.Chunks() / config.recirculation_bps);
            seconds = std::max(seconds, passes * each * (config.leaves > 1 ? 2 : 1)); // racks are not equally loaded
        }
    }
    seconds /= 1 - config.background_load;
    const Ps rto = config.rto_ns > 0 ? config.rto_ns * kPsPerNs
                                     : std::max<Ps>(config.rto_min_ns * kPsPerNs, static_cast<Ps>(4e12 * seconds));
    return rto;
}

void
EpochRunner::Start(Ps now)
{
    for (std::uint32_t worker = 0; worker < m_fabric.config.workers; ++worker)
    {
        TryPart(worker, now);
    }
}

// ------------------------------------------------------------------------------------------------------ compute

void
EpochRunner::TryPart(std::uint32_t worker, Ps now)
{
    WorkerState& state = m_workers[worker];
    if (state.computing || state.phase >= static_cast<std::int32_t>(m_phases.size()))
    {
        return;
    }
    if (state.phase >= 0 && m_phases[state.phase].propagation >= 0 && state.earlyBins[state.phase] <= state.partsDone)
    {
        return;
    }
    const auto nextPhase = static_cast<std::size_t>(state.phase + 1);
    Ps total = state.phase >= 0 ? m_phases[state.phase].postNs[worker] * kPsPerNs : 0;
    total += nextPhase < m_phases.size() ? m_phases[nextPhase].preNs[worker] * kPsPerNs : 0;
    const Ps part = total * (state.partsDone + 1) / Bins() - total * state.partsDone / Bins();
    state.computing = true;
    m_fabric.events.Arm(m_timers[worker]->source, now + part);
}

void
EpochRunner::OnPartDone(std::uint32_t worker, Ps now)
{
    WorkerState& state = m_workers[worker];
    state.computing = false;
    ++m_partsDone;
    const std::int32_t next = state.phase + 1;
    const std::uint32_t bin = state.partsDone++;
    const bool lastPart = state.partsDone == Bins();
    if (lastPart)
    {
        const bool more = next < static_cast<std::int32_t>(m_phases.size());
        const Ps pre = more ? m_phases[next].preNs[worker] * kPsPerNs : 0;
        if (state.phase >= 0)
        {
            EpochRow& row = Row(state.phase, worker);
            row.end = std::max(row.start, now - pre / Bins());
        }
        state.phase = next;
        state.partsDone = 0;
        if (!more)
        {
            if (++m_workersDone == m_fabric.config.workers)
            {
                m_onEpochDone();
            }
            return;
        }
        Row(next, worker).start = state.phase > 0 ? Row(next - 1, worker).end : 0;
    }
    if (next < static_cast<std::int32_t>(m_phases.size()) && m_phases[next].propagation >= 0)
    {
        Release(worker, next, bin, now);
    }
    TryPart(worker, now);
}

// -------------------------------------------------------------------------------------------------- communication

void
EpochRunner::Release(std::uint32_t worker, std::int32_t phase, std::uint32_t bin, Ps now)
{
    auto& exchanges = m_propagations[m_phases[phase].propagation].exchanges;
    WorkerState& state = m_workers[worker];
    if (bin == 0)
    {
        Row(phase, worker).commStart = now;
        ++m_communicating;
        state.exchange = 0;
    }
    if (exchanges.empty()) // no cross edges at all
    {
        if (bin == 0)
        {
            PropagationDone(worker, phase, now);
        }
        return;
    }
    const std::uint32_t tag = m_firstTag[phase];
    if (exchanges.front().HostBased())
    {
        if (bin == 0)
        {
            StartExchange(worker, tag, now);
        }
        m_hosts[worker]->ReleaseHostBased(tag, exchanges.front(), bin, now);
        return;
    }
    // In-network exchanges are not binned: they start when everything is there to upload.
    if (bin + 1 == Bins())
    {
        StartExchange(worker, tag, now);
    }
}

void
EpochRunner::StartExchange(std::uint32_t worker, std::uint32_t tag, Ps now)
{
    WorkerState& state = m_workers[worker];
    Tag& info = m_tags[tag];
    if (info.exchange->HostBased())
    {
        info.firstStart = std::min(info.firstStart, now);
        m_hosts[worker]->Await(tag, info.rto, now);
        OnHostBasedBin(worker, tag, now); // what is already here, or nothing to wait for
        return;
    }
    // The block before must be complete everywhere before its aggregators are given to this one.
    for (std::uint32_t before = tag; before-- > 0;)
    {
        if (m_tags[before].exchange->HostBased())
        {
            continue;
        }
        if (state.lastComplete == Aggregation::kNoTag || state.lastComplete < before)
        {
            state.waitsForComplete = true;
            state.waitTag = tag;
            return;
        }
        break;
    }
    info.firstStart = std::min(info.firstStart, now);
    EnsureStarted(tag);
    m_hosts[worker]->Await(tag, info.rto, now);
    m_hosts[worker]->StartInNetwork(tag, now);
}

void
EpochRunner::EnsureStarted(std::uint32_t tag)
{
    if (m_aggregation.Tag() != tag)
    {
        m_aggregation.Start(tag, *m_tags[tag].exchange);
    }
}

HostBasedState*
EpochRunner::HostBased(std::uint32_t tag, bool create)
{
    auto& state = m_hostBased[tag];
    if (!state && create && m_tags[tag].lastEnd == 0)
    {
        state = std::make_unique<HostBasedState>(tag, *m_tags[tag].exchange, m_fabric.config.workers);
    }
    return state.get();
}

std::uint16_t
EpochRunner::RootOf(std::uint32_t tag) const
{
    const Config& config = m_fabric.config;
    return static_cast<std::uint16_t>(config.spines ? config.workers + config.leaves + tag % config.spines : config.workers);
}

void
EpochRunner::OnComplete(std::uint32_t worker, std::uint32_t tag, Ps now)
{
    WorkerState& state = m_workers[worker];
    if (state.lastComplete != Aggregation::kNoTag && state.lastComplete >= tag)
    {
        return;
    }
    state.lastComplete = tag;
    if (state.waitsForComplete)
    {
        state.waitsForComplete = false;
        StartExchange(worker, state.waitTag, now);
        return;
    }
    const std::uint32_t next = tag + 1;
    if (next < m_tags.size() && m_tags[next].phase == m_tags[tag].phase && !m_tags[next].exchange->HostBased())
    {
        ++state.exchange;
        StartExchange(worker, next, now);
    }
}

void
EpochRunner::OnInNetworkDone(std::uint32_t worker, std::uint32_t tag, Ps now)
{
    Tag& info = m_tags[tag];
    info.lastEnd = std::max(info.lastEnd, now);
    const std::uint32_t next = tag + 1;
    const bool more = next < m_tags.size() && m_tags[next].phase == info.phase;
    if (!more)
    {
        PropagationDone(worker, static_cast<std::int32_t>(info.phase), now);
        return;
    }
    if (m_tags[next].exchange->HostBased())
    {
        ++m_workers[worker].exchange;
        StartExchange(worker, next, now);
        m_hosts[worker]->ReleaseHostBased(next, *m_tags[next].exchange, Bins() - 1, now);
    }
    // otherwise the next block starts when this one's completion arrives
}

// Bins up to some point of a host-based exchange have been received.
void
EpochRunner::OnHostBasedBin(std::uint32_t worker, std::uint32_t tag, Ps now)
{
    Tag& info = m_tags[tag];
    const auto phase = static_cast<std::int32_t>(info.phase);
    WorkerState& state = m_workers[worker];
    const bool started = Row(phase, worker).commStart >= 0 &&
                         (info.position == 0 || (state.exchange == info.position && info.firstStart != kNever));
    HostBasedState* received = HostBased(tag, true);
    if (!started || !received)
    {
        return;
    }
    const std::uint32_t bins = info.exchange->Bins();
    const bool single = info.position > 0 || bins == 1;
    if (!single)
    {
        std::uint32_t& have = state.earlyBins[phase];
        const std::uint32_t before = have;
        while (have < bins && received->pending[worker * bins + have] == 0)
        {
            ++have;
        }
        if (have == before)
        {
            return;
        }
        if (have < bins)
        {
            TryPart(worker, now);
            return;
        }
    }
    else
    {
        for (std::uint32_t bin = 0; bin < bins; ++bin)
        {
            if (received->pending[worker * bins + bin] != 0)
            {
                return;
            }
        }
        if (state.earlyBins[phase] == Bins())
        {
            return;
        }
    }
    info.lastEnd = std::max(info.lastEnd, std::max<Ps>(now, 1));
    m_hosts[worker]->Received(tag, now);
    if (++received->workersDone == m_fabric.config.workers)
    {
        m_hostBased[tag].reset();
    }
    PropagationDone(worker, phase, now);
}

void
EpochRunner::PropagationDone(std::uint32_t worker, std::int32_t phase, Ps now)
{
    WorkerState& state = m_workers[worker];
    state.earlyBins[phase] = Bins();
    Row(phase, worker).commEnd = now;
    --m_communicating;
    TryPart(worker, now);
}

// -------------------------------------------------------------------------------------------------------- reports

double
EpochRunner::Progress() const
{
    const double parts = static_cast<double>(m_fabric.config.workers) * Bins() * (static_cast<double>(m_phases.size()) + 1);
    double done = static_cast<double>(m_partsDone);
    if (m_aggregation.Tag() != Aggregation::kNoTag)
    {
        // within a propagation, count its blocks
        const Tag& info = m_tags[m_aggregation.Tag()];
        const auto& exchanges = m_propagations[m_phases[info.phase].propagation].exchanges;
        const double share = static_cast<double>(info.position) / static_cast<double>(exchanges.size());
        done = std::max(done, (static_cast<double>(info.phase) + share) * m_fabric.config.workers * Bins());
    }
    return std::min(1.0, done / parts);
}

std::uint32_t
EpochRunner::VertexOf(const Frame& frame) const
{
    const Exchange& exchange = ExchangeOf(frame.tag);
    switch (frame.kind)
    {
    case Kind::Upload:
    case Kind::Presum:
    case Kind::Partial:
    case Kind::Result:
        return exchange.BoundaryIndex(frame.item);
    case Kind::Raw:
        return exchange.BoundaryIndex(
            exchange.EntrySlot(exchange.HostBased() ? exchange.FlowEntry(frame.item) : frame.item));
    default:
        return kNone;
    }
}

std::vector<BlockRow>
EpochRunner::BlockRows() const
{
    std::vector<BlockRow> rows;
    for (const Tag& info : m_tags)
    {
        const Exchange& exchange = *info.exchange;
        rows.push_back({info.phase,
                        exchange.Block(),
                        exchange.Level(),
                        exchange.Slots(),
                        info.firstStart == kNever ? 0 : info.firstStart,
                        info.lastEnd});
    }
    return rows;
}

std::string
EpochRunner::Stuck() const
{
    std::uint32_t behind = 0;
    std::int32_t phase = static_cast<std::int32_t>(m_phases.size());
    for (std::uint32_t worker = 0; worker < m_workers.size(); ++worker)
    {
        if (m_workers[worker].phase < phase)
        {
            phase = m_workers[worker].phase;
            behind = worker;
        }
    }
    std::ostringstream text;
    text << "worker " << behind << " is the furthest behind, in phase " << phase << " of " << m_phases.size() << "; "
         << (m_workers.size() - m_workersDone) << " of " << m_workers.size() << " workers have not finished";
    return text.str();
}

} // namespace netfold
