// What every port, switch and host of a run shares: configuration, clock, counters, payload pools, random streams.
#ifndef NETFOLD_FABRIC_H
#define NETFOLD_FABRIC_H

#include "config.h"
#include "events.h"
#include "frame.h"
#include "pools.h"
#include "port.h"

#include <array>
#include <memory>

namespace netfold
{

struct Counters
{
    // frames and bytes (Ethernet with FCS) delivered or lost on a link, by link class and kind
    std::array<std::array<std::uint64_t, kKinds>, 3> frames{};
    std::array<std::array<std::uint64_t, kKinds>, 3> bytes{};
    std::uint64_t hops{0};
    std::uint64_t drops{0};  // full buffers
    std::uint64_t losses{0}; // injected
    std::uint64_t ecnMarks{0};
    std::uint64_t cnps{0};
    std::uint64_t passes{0};
    std::uint64_t recirculatedPasses{0};
    std::uint64_t results{0};
    std::uint64_t contributions{0}; // (source, destination, chunk) additions that a switch was asked for
    std::uint64_t bypassed{0};      // ... and forwarded unaggregated
    std::uint64_t timeouts{0};
    std::uint64_t pulls{0};
    std::uint64_t resends{0};
    std::uint64_t stale{0};
    std::uint64_t duplicates{0};
    std::uint64_t saturated{0};
    std::uint64_t pauses{0};
    std::uint64_t backgroundBytes{0};
    std::uint64_t backgroundFlows{0};
    std::uint64_t unreadable{0}; // at hosts: no frames of ours
};

struct PacketSample
{
    Ps time;
    Frame frame;
    LinkClass hop;
};

class WireCodec;

class Fabric
{
  public:
    Fabric(const Config& configuration, LaneSimulatorImpl* lane, std::uint32_t payloadStride)
        : config(configuration),
          events(lane),
          values(payloadStride),
          lossRandom(configuration.seed, 1),
          ecnRandom(configuration.seed, 2)
    {
    }

    // A frame ends on its way.
    void Drop(const Frame& frame);

    // A frame ends here: give its payload back.
    void Consume(const Frame& frame)
    {
        if (frame.payload != kNone) [[unlikely]]
        {
            if (frame.kind == Kind::Pull)
            {
                pulls.Release(frame.payload);
            }
            else
            {
                values.Release(frame.payload);
            }
        }
    }

    const Config& config;
    Events events;
    Counters counters;
    ValuePool values;
    PullPool pulls;
    WireCodec* wire{nullptr}; // where frames carry bytes
    Random lossRandom;
    Random ecnRandom;
    std::vector<PacketSample> samples;
    std::uint64_t sampleCountdown{0};
};

} // namespace netfold

#endif
