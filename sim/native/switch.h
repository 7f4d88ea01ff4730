// What cluster, sampler and results see of any switch, the native model's or a P4 program's.
#ifndef NETFOLD_SWITCH_H
#define NETFOLD_SWITCH_H

#include "port.h"

#include <vector>

namespace netfold
{

class Switch : public Node
{
  public:
    // Egress ports in order: a leaf's workers then its spines; a spine's leaves. `upstream[i]` is the far end's port that
    // feeds ingress i (to pause it).
    virtual void Connect(std::vector<Port*> egress, std::vector<Port*> upstream) = 0;

    const std::vector<Port*>& Ports() const
    {
        return m_egress;
    }

    // Largest backlog of an egress port, in bytes with the wire's overhead: since the last call, and ever.
    virtual std::uint64_t TakePeak(std::size_t egress, Ps now) = 0;
    virtual std::uint64_t MaxBacklog(std::size_t egress) const = 0;

    // Largest backlog of bytes waiting for aggregator passes since the last call.
    virtual std::uint64_t TakeRecirculationPeak() = 0;

  protected:
    std::vector<Port*> m_egress;
};

} // namespace netfold

#endif
