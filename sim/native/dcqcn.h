// DCQCN's reaction point (Zhu et al., SIGCOMM 2015, section 3.2, figure 7 and equations 1-4), one per flow.
//
// Timers are evaluated lazily: rate and alpha only matter when the flow sends or is cut, so the expirations since the last
// look are replayed then. The outcome is that of real timers, without an event per flow and period.
#ifndef NETFOLD_DCQCN_H
#define NETFOLD_DCQCN_H

#include "config.h"
#include "units.h"

#include <algorithm>
#include <cmath>

namespace netfold
{

class Dcqcn
{
  public:
    // A flow that has not been cut sends at line rate and needs no pacing.
    bool Limited() const
    {
        return m_limited;
    }

    double RateBps() const
    {
        return m_rate;
    }

    // A flow with one receiver gets one CNP per interval by construction. An upload flow has as many receivers as there
    // are owners, each with its own interval; `manyReceivers` keeps it to one cut per interval at the reaction point.
    void OnCnp(const Config& config, double lineBps, bool manyReceivers, Ps now)
    {
        if (manyReceivers && now - m_lastCut < config.cnp_interval_ns * kPsPerNs)
        {
            return;
        }
        m_lastCut = now;
        if (!m_limited)
        {
            m_rate = m_target = lineBps;
            m_alpha = 1.0; // initial value in the paper
            m_limited = true;
        }
        else
        {
            Advance(config, lineBps, now);
        }
        m_target = m_rate;
        m_rate = std::max(config.dcqcn_min_rate_bps, m_rate * (1 - m_alpha / 2));
        m_alpha = (1 - config.dcqcn_g) * m_alpha + config.dcqcn_g;
        m_alphaTimer = m_increaseTimer = now;
        m_timerRounds = m_byteRounds = 0;
        m_bytes = 0;
        m_limited = true;
    }

    // Replay the timers up to now.
    void Advance(const Config& config, double lineBps, Ps now)
    {
        const Ps alphaPeriod = config.dcqcn_alpha_timer_ns * kPsPerNs;
        const Ps rounds = (now - m_alphaTimer) / alphaPeriod;
        if (rounds > 0)
        {
            m_alpha *= std::pow(1 - config.dcqcn_g, static_cast<double>(rounds));
            m_alphaTimer += rounds * alphaPeriod;
        }
        const Ps increasePeriod = config.dcqcn_increase_timer_ns * kPsPerNs;
        while (m_limited && now - m_increaseTimer >= increasePeriod)
        {
            m_increaseTimer += increasePeriod;
            ++m_timerRounds;
            Increase(config, lineBps);
        }
    }

    void OnSent(const Config& config, double lineBps, std::uint32_t bytes)
    {
        m_bytes += bytes;
        if (m_bytes >= config.dcqcn_byte_counter_bytes)
        {
            m_bytes -= config.dcqcn_byte_counter_bytes;
            ++m_byteRounds;
            Increase(config, lineBps);
        }
    }

  private:
    void Increase(const Config& config, double lineBps)
    {
        const std::uint32_t threshold = config.dcqcn_fast_recovery_rounds;
        const std::uint32_t most = std::max(m_timerRounds, m_byteRounds);
        const std::uint32_t least = std::min(m_timerRounds, m_byteRounds);
        if (most >= threshold)
        {
            const bool hyper = least > threshold;
            m_target += hyper ? config.dcqcn_rhai_bps * (least - threshold) : config.dcqcn_rai_bps;
            m_target = std::min(m_target, lineBps);
        }
        m_rate = (m_target + m_rate) / 2;
        if (m_rate >= 0.999 * lineBps)
        {
            m_limited = false;
        }
    }

    double m_rate{0};
    double m_target{0};
    double m_alpha{1.0};
    Ps m_lastCut{-kNever / 2};
    Ps m_alphaTimer{0};
    Ps m_increaseTimer{0};
    std::uint64_t m_bytes{0};
    std::uint32_t m_timerRounds{0};
    std::uint32_t m_byteRounds{0};
    bool m_limited{false};
};

} // namespace netfold

#endif
