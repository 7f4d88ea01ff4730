// Everything a run is told, in SI units named in the fields. Filled by sim/engine.py; sources of the defaults are in sim/scenario.py.
#ifndef NETFOLD_CONFIG_H
#define NETFOLD_CONFIG_H

#include <cstdint>
#include <string>
#include <vector>

namespace netfold
{

struct Config
{
    // cluster
    std::uint32_t workers{0};
    std::uint32_t leaves{1}; // 1 and spines = 0: a star around one switch
    std::uint32_t spines{0};
    double host_link_bps{0};
    double fabric_link_bps{0};
    std::int64_t link_delay_ns{0};
    std::int64_t switch_latency_ns{0};
    bool ecmp_per_packet{false};
    bool ecmp_by_destination{false}; // the spine is the destination worker's number modulo the spines: a routing table
    std::uint32_t mtu_bytes{1500};
    std::uint32_t tx_burst{32};

    // wire sizes
    std::uint32_t frame_overhead_bytes{0}; // Ethernet + IPv4 + UDP + netfold header + FCS
    std::uint32_t wire_gap_bytes{0};       // preamble + inter-frame gap: on the wire, never queued
    std::uint32_t control_frame_bytes{0};  // finish, complete, cnp
    std::uint32_t pull_entry_bytes{0};     // one missing (vertex, chunk) in a pull list

    // switch
    std::uint64_t aggregators{0}; // capacity of a first-come-first-served switch in slots, 0 = unlimited
    bool recirculation_limited{false};
    double pass_rate_pps{0};      // aggregator passes per second, all pipelines
    double recirculation_bps{0};  // recirculation bandwidth, all pipelines
    std::uint64_t buffer_bytes{0}; // shared packet buffer, 0 = unlimited
    bool pfc{false};
    std::uint64_t pfc_xoff_bytes{0};
    std::uint64_t pfc_xon_bytes{0};

    bool p4{false};            // switches run P4 programs, frames carry bytes
    bool p4_trace{false};      // every packet into and out of P4 switches is kept, byte for byte
    bool wire_protocol{false}; // reports and completions as p4/programs has them: leaves count their racks

    // system
    bool first_come{false};      // aggregators first come first served, otherwise the plan's slots
    bool multicast_home{false};  // uploads go to every owner's leaf instead of leaf-level partial sums
    bool presum{false};

    // congestion control
    bool dcqcn{true};
    double ecn_kmin_bytes{0};
    double ecn_kmax_bytes{0};
    double ecn_pmax{0};
    double ecn_fabric_kmin_bytes{0};
    double ecn_fabric_kmax_bytes{0};
    double dcqcn_g{0};
    std::int64_t dcqcn_alpha_timer_ns{0};
    std::int64_t dcqcn_increase_timer_ns{0};
    std::uint64_t dcqcn_byte_counter_bytes{0};
    std::uint32_t dcqcn_fast_recovery_rounds{0};
    double dcqcn_rai_bps{0};
    double dcqcn_rhai_bps{0};
    double dcqcn_min_rate_bps{0};
    std::int64_t cnp_interval_ns{0};

    // faults and other tenants
    double loss_rate{0};
    double loss_mean_burst{1};
    double background_load{0};
    std::vector<double> background_bytes; // flow-size CDF: sizes ...
    std::vector<double> background_cdf;   // ... and cumulative probabilities

    // reliability
    std::int64_t rto_ns{0}; // 0: from each exchange's lower bound
    std::int64_t rto_min_ns{0};
    std::int64_t time_limit_ns{0}; // simulated time after which a run counts as stuck

    // run
    std::uint32_t values_per_packet{30};
    std::uint32_t pipeline_bins{1};
    bool value_mode{false};
    bool stock_events{false};
    std::int64_t sample_interval_ns{0}; // 0: starts at 1 us and doubles as the run grows
    std::uint32_t packet_sample{0};     // record every Nth delivered frame, 0 = none
    std::uint64_t seed{1};
};

} // namespace netfold

#endif
