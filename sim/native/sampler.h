// Records every switch's egress backlog over time: per sampling interval and port, the largest backlog seen.
#ifndef NETFOLD_SAMPLER_H
#define NETFOLD_SAMPLER_H

#include "fabric.h"
#include "switch.h"

#include <functional>
#include <vector>

namespace netfold
{

class Sampler final : public EventSource
{
  public:
    static constexpr std::size_t kMaxSamples = 2048;

    // interval 0: starts at 1 us and doubles (merging pairs) whenever kMaxSamples are full, so that a run of any length
    // has between 1024 and 2048 samples.
    Sampler(Fabric& fabric, const std::vector<Switch*>& switches, Ps interval, std::function<bool()> active);

    void Start(Ps now);
    void Fire(Ps now) override;

    // Columns of one sample: every port of every switch in order, then every switch's recirculation queue.
    std::size_t Columns() const
    {
        return m_columns;
    }

    std::size_t Rows() const
    {
        return m_times.size();
    }

    const std::vector<Ps>& Times() const // end of each interval
    {
        return m_times;
    }

    const std::vector<std::uint64_t>& Backlog() const // [row * columns + column]
    {
        return m_backlog;
    }

    const std::vector<std::uint8_t>& Active() const // a propagation was under way
    {
        return m_active;
    }

    void TakeSample(Ps now);

  private:
    void Halve();

    Fabric& m_fabric;
    const std::vector<Switch*>& m_switches;
    std::function<bool()> m_isActive;
    std::uint32_t m_source;
    Ps m_interval;
    bool m_adaptive;
    std::size_t m_columns{0};
    std::vector<Ps> m_times;
    std::vector<std::uint64_t> m_backlog;
    std::vector<std::uint8_t> m_active;
};

} // namespace netfold

#endif
