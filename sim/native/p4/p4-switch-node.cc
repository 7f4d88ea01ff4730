#include "p4-switch-node.h"

#include <algorithm>
#include <cstring>

namespace netfold
{

namespace
{

P4SwitchSettings
Settings(const Config& config, const P4Source& source)
{
    P4SwitchSettings settings;
    settings.name = source.node;
    settings.program = source.program;
    settings.bufferBytes = config.buffer_bytes;
    settings.fcsBytes = kFcsBytes;
    settings.seed = config.seed;
    if (config.recirculation_limited)
    {
        settings.passPs = static_cast<Ps>(1e12 / config.pass_rate_pps + 0.5);
        settings.recirculation = {config.recirculation_bps, kFcsBytes + config.wire_gap_bytes};
    }
    return settings;
}

} // namespace

P4SwitchNode::P4SwitchNode(Fabric& fabric, WireCodec& codec, const P4Source& source, std::uint16_t address)
    : m_fabric(fabric),
      m_codec(codec),
      m_program(source.library, source.address),
      m_manager(fabric.events, m_program, *this, Settings(fabric.config, source), &fabric.ecnRandom),
      m_address(address),
      m_title(source.node + ": " + source.program)
{
}

void
P4SwitchNode::Connect(std::vector<Port*> egress, std::vector<Port*>)
{
    m_egress = std::move(egress);
    const Config& config = m_fabric.config;
    for (std::uint32_t port = 0; port < m_egress.size(); ++port)
    {
        const bool fabricLink = m_egress[port]->Class() == LinkClass::Fabric;
        P4PortSettings settings{fabricLink ? config.fabric_link_bps : config.host_link_bps, kFcsBytes + config.wire_gap_bytes};
        if (config.dcqcn)
        {
            settings.ecnKminBytes = fabricLink ? config.ecn_fabric_kmin_bytes : config.ecn_kmin_bytes;
            settings.ecnKmaxBytes = fabricLink ? config.ecn_fabric_kmax_bytes : config.ecn_kmax_bytes;
            settings.ecnPmax = config.ecn_pmax;
        }
        m_manager.SetPort(port, settings);
        m_egress[port]->SetEcn(0, 0); // the queue is the traffic manager's: the link takes one frame at a time
    }
}

void
P4SwitchNode::Receive(Frame& frame, std::uint32_t ingress, Ps now)
{
    const std::uint32_t id = frame.payload;
    m_partials += frame.kind == Kind::Partial;
    if (m_fabric.config.p4_trace) [[unlikely]]
    {
        const std::uint8_t* bytes = m_codec.pool.At(id);
        m_trace.push_back({now, ingress, false, {bytes, bytes + frame.bytes - kFcsBytes}});
    }
    m_manager.Receive(ingress, m_codec.pool.At(id), frame.bytes - kFcsBytes, frame.src, now);
    m_codec.pool.Release(id);
}

void
P4SwitchNode::Transmit(std::uint32_t port, std::uint8_t* data, std::size_t bytes, std::uint32_t, Ps at)
{
    if (m_fabric.config.p4_trace) [[unlikely]]
    {
        m_trace.push_back({at, port, true, {data, data + bytes}});
    }
    if (bytes > m_codec.pool.Largest()) [[unlikely]]
    {
        Stopped(m_title + " sends a frame of " + std::to_string(bytes) + " bytes where cluster.mtu_bytes is " +
                std::to_string(m_fabric.config.mtu_bytes) + "; port " + std::to_string(port) + ", at " +
                std::to_string(at / kPsPerNs) + " ns");
    }
    Frame& frame = m_egress[port]->Next();
    m_codec.Describe(data, bytes, frame);
    m_fabric.counters.results += frame.kind == Kind::Result;
    frame.payload = m_codec.pool.Allocate(bytes);
    std::memcpy(m_codec.pool.At(frame.payload), data, bytes);
    m_egress[port]->EnqueueNext(at);
}

void
P4SwitchNode::Dropped(std::uint32_t, std::uint32_t, Ps)
{
    ++m_fabric.counters.drops;
}

const std::vector<P4TraceRow>&
P4SwitchNode::Trace()
{
    std::stable_sort(m_trace.begin(), m_trace.end(), [](const P4TraceRow& x, const P4TraceRow& y) { return x.time < y.time; });
    return m_trace;
}

std::uint64_t
P4SwitchNode::Marks() const
{
    std::uint64_t marks = 0;
    for (std::uint32_t port = 0; port < m_egress.size(); ++port)
    {
        marks += m_manager.Port(port).marks;
    }
    return marks;
}

} // namespace netfold
