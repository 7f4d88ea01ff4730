// A P4 program as a switch of the cluster: bytes from the links into its traffic manager, bytes out onto the links.
#ifndef NETFOLD_P4_SWITCH_NODE_H
#define NETFOLD_P4_SWITCH_NODE_H

#include "../fabric.h"
#include "../switch.h"
#include "../wire-codec.h"
#include "traffic-manager.h"

namespace netfold
{

// A loaded program, set up by Python, and the node that runs it.
struct P4Source
{
    std::string library;
    std::uintptr_t address{0};
    std::string program; // for messages
    std::string node;    // ... "leaf0"
};

// A packet at a port, coming in or going out.
struct P4TraceRow
{
    Ps time;
    std::uint32_t port;
    bool out;
    std::vector<std::uint8_t> bytes;
};

inline constexpr std::uint32_t kFcsBytes = 4;

class P4SwitchNode final : public Switch, private P4Output
{
  public:
    P4SwitchNode(Fabric& fabric, WireCodec& codec, const P4Source& source, std::uint16_t address);

    void Connect(std::vector<Port*> egress, std::vector<Port*> upstream) override;
    void Receive(Frame& frame, std::uint32_t ingress, Ps now) override;

    void Announce(const Frame& frame, std::uint32_t ingress) override
    {
        m_program.Announce(ingress, m_codec.pool.At(frame.payload), frame.bytes - kFcsBytes);
    }

    std::uint16_t Address() const override
    {
        return m_address;
    }

    std::uint64_t TakePeak(std::size_t egress, Ps now) override
    {
        return m_manager.TakePeak(static_cast<std::uint32_t>(egress), now);
    }

    std::uint64_t MaxBacklog(std::size_t egress) const override
    {
        return m_manager.Port(static_cast<std::uint32_t>(egress)).maxBacklogBytes;
    }

    std::uint64_t TakeRecirculationPeak() override
    {
        return m_manager.TakeRecirculationPeak();
    }

    const P4TrafficManager& Manager() const
    {
        return m_manager;
    }

    P4Statistics Statistics() const
    {
        return m_program.Statistics();
    }

    std::uint64_t Marks() const;

    std::uint64_t Partials() const // arrived
    {
        return m_partials;
    }

    const std::vector<P4TraceRow>& Trace(); // in order of time

  private:
    void Transmit(std::uint32_t port, std::uint8_t* data, std::size_t bytes, std::uint32_t source, Ps at) override;
    bool QueuesAhead() const override
    {
        return true; // ports of the cluster keep their frames in order, with the times at which they leave
    }
    void Dropped(std::uint32_t port, std::uint32_t source, Ps now) override;

    Fabric& m_fabric;
    WireCodec& m_codec;
    P4Program m_program;
    P4TrafficManager m_manager;
    std::uint16_t m_address;
    std::string m_title; // switch and program, for messages
    std::uint64_t m_partials{0};
    std::vector<P4TraceRow> m_trace;
};

} // namespace netfold

#endif
