// One direction of a link: an egress queue that feeds a wire.
//
// The queue is FIFO and the wire has a fixed rate, so a frame's departure is known when it is queued: the port keeps the
// time at which its last byte leaves and never touches a frame between enqueue and arrival. One event per hop (the arrival),
// one pending event per link, and backlog at any moment is (busy-until - now) times the rate, exact to the byte.
#ifndef NETFOLD_PORT_H
#define NETFOLD_PORT_H

#include "events.h"
#include "frame.h"
#include "ring.h"

#include <algorithm>
#include <array>

namespace netfold
{

class Fabric;

class Node
{
  public:
    virtual ~Node() = default;
    virtual void Receive(Frame& frame, std::uint32_t ingress, Ps now) = 0;
    // Receive() with this frame comes soon: start loading what it will read. May come without Receive().
    virtual void Announce(const Frame& frame, std::uint32_t ingress)
    {
    }
    virtual std::uint16_t Address() const = 0; // as in Frame::src
    // A port of this node may send again (flow control released it).
    virtual void PortResumed(Ps now)
    {
    }
};

enum class LinkClass : std::uint8_t
{
    Up,     // worker to leaf
    Down,   // leaf to worker
    Fabric, // leaf to spine and back
};

// What has reached a link's far end, lost there or not.
struct Carried
{
    std::uint64_t frames{0};
    std::uint64_t bytes{0};
};

class Port final : public EventSource
{
  public:
    Port(Fabric& fabric, LinkClass linkClass, double rateBps, Ps delay, Node* owner, Node* peer, std::uint32_t peerIngress);

    // Queue a frame now; the caller has decided that there is room for it.
    void Enqueue(const Frame& frame, Ps now)
    {
        m_flight.Next() = frame;
        EnqueueNext(now);
    }

    // The same in two steps: where to write the frame, all but its time, and that it is there.
    Frame& Next()
    {
        return m_flight.Next();
    }

    void EnqueueNext(Ps now);

    // Bytes waiting or being serialised, wire gaps included.
    std::uint64_t Backlog(Ps now) const
    {
        const Ps from = m_paused ? std::min(now, m_pausedFrom) : now;
        const Ps ahead = m_busyUntil - from;
        return ahead > 0 ? static_cast<std::uint64_t>(static_cast<double>(ahead) * m_bytesPerPs + 0.5) : 0;
    }

    Ps BusyUntil() const
    {
        return m_busyUntil;
    }

    bool Paused() const
    {
        return m_paused;
    }

    // Priority flow control from the far end: frames whose serialisation has not begun wait.
    void Pause(Ps now);
    void Resume(Ps now);

    // Frames that have left the queue for the wire since the start, and when the next one will (kNever: none moves).
    std::uint64_t Departed(Ps now);
    Ps NextDeparture(Ps now);

    void Fire(Ps now) override;
    void Prefetch() override;

    // Largest backlog since the last call, for the sampler.
    std::uint64_t TakePeak(Ps now)
    {
        const std::uint64_t peak = std::max(m_peak, Backlog(now));
        m_peak = 0;
        return peak;
    }

    std::uint64_t MaxBacklog() const
    {
        return m_maxBacklog;
    }

    LinkClass Class() const
    {
        return m_class;
    }

    std::uint16_t From() const
    {
        return m_owner->Address();
    }

    std::uint16_t To() const
    {
        return m_peer->Address();
    }

    const Carried& Own() const
    {
        return m_carried[0];
    }

    const Carried& Background() const
    {
        return m_carried[1];
    }

    std::size_t QueueMemoryBytes() const
    {
        return m_flight.CapacityBytes();
    }

    void SetEcn(double kmin, double kmax)
    {
        m_ecnKmin = kmin;
        m_ecnKmax = kmax;
    }

  private:
    Ps Serialisation(std::uint32_t wireBytes) const
    {
        return static_cast<Ps>((static_cast<unsigned __int128>(wireBytes) * m_psPerByteQ32) >> 32);
    }

    Ps StartOf(const Frame& frame) const;

    Fabric& m_fabric;
    Node* m_owner;
    Node* m_peer;
    std::uint32_t m_peerIngress;
    std::uint32_t m_source;
    Ps m_busyUntil{0};
    Ps m_delay;
    std::uint64_t m_psPerByteQ32; // picoseconds per byte, 32 fraction bits
    double m_bytesPerPs;
    double m_ecnKmin{0};
    double m_ecnKmax{0};
    std::uint64_t m_peak{0};
    std::uint64_t m_maxBacklog{0};
    Ring<Frame> m_flight; // queued and on the wire, in order of arrival at the peer
    std::uint64_t m_arrived{0};  // frames that have reached the peer
    std::array<Carried, 2> m_carried{}; // the run's own, other tenants'
    std::size_t m_onWire{0};     // of m_flight, those known to have left the queue
    LinkClass m_class;
    bool m_lossBurst{false}; // Gilbert-Elliott state
    bool m_paused{false};
    Ps m_pausedFrom{0};      // virtual start of the first held frame
    std::size_t m_held{0};   // frames at the ring's tail that wait for Resume
};

} // namespace netfold

#endif
