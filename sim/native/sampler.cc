#include "sampler.h"

#include <algorithm>

namespace netfold
{

Sampler::Sampler(Fabric& fabric, const std::vector<Switch*>& switches, Ps interval, std::function<bool()> active)
    : m_fabric(fabric),
      m_switches(switches),
      m_isActive(std::move(active)),
      m_source(fabric.events.Add(this)),
      m_interval(interval > 0 ? interval : 1000 * kPsPerNs),
      m_adaptive(interval <= 0)
{
    for (const Switch* node : switches)
    {
        m_columns += node->Ports().size();
    }
    m_columns += switches.size();
}

void
Sampler::Start(Ps now)
{
    m_fabric.events.Arm(m_source, now + m_interval);
}

void
Sampler::TakeSample(Ps now)
{
    m_times.push_back(now);
    m_active.push_back(m_isActive());
    for (Switch* node : m_switches)
    {
        for (std::size_t port = 0; port < node->Ports().size(); ++port)
        {
            m_backlog.push_back(node->TakePeak(port, now));
        }
    }
    for (Switch* node : m_switches)
    {
        m_backlog.push_back(node->TakeRecirculationPeak());
    }
}

void
Sampler::Fire(Ps now)
{
    TakeSample(now);
    if (m_adaptive && m_times.size() >= kMaxSamples)
    {
        Halve();
    }
    m_fabric.events.Arm(m_source, now + m_interval);
}

void
Sampler::Halve()
{
    const std::size_t rows = m_times.size() / 2;
    for (std::size_t row = 0; row < rows; ++row)
    {
        m_times[row] = m_times[2 * row + 1];
        m_active[row] = m_active[2 * row] | m_active[2 * row + 1];
        for (std::size_t column = 0; column < m_columns; ++column)
        {
            m_backlog[row * m_columns + column] =
                std::max(m_backlog[2 * row * m_columns + column], m_backlog[(2 * row + 1) * m_columns + column]);
        }
    }
    m_times.resize(rows);
    m_active.resize(rows);
    m_backlog.resize(rows * m_columns);
    m_interval *= 2;
}

} // namespace netfold
