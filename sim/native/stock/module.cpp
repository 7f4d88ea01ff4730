// sim._network: networks of stock ns-3 hosts and P4 switches, as Python describes and runs them (sim/network/).
#include "network.h"

#include "../lane-simulator-impl.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

namespace nb = nanobind;
using namespace netfold;

namespace
{

template <typename T>
nb::object
ToNumpy(std::vector<T> values)
{
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// One column of rows.
template <typename Row, typename Rows, typename Get>
nb::object
Column(const Rows& rows, Get get)
{
    std::vector<Row> values;
    for (const auto& row : rows)
    {
        values.push_back(static_cast<Row>(get(row)));
    }
    return ToNumpy(std::move(values));
}

// Runs without the GIL; progress callbacks and Ctrl-C take it back.
class NetworkRun
{
  public:
    explicit NetworkRun(const NetworkConfig& config)
        : m_network(std::make_unique<Network>(config))
    {
    }

    void Run(nb::object progress)
    {
        nb::gil_scoped_release unlocked;
        m_network->Run([&](double share) {
            nb::gil_scoped_acquire locked;
            if (PyErr_CheckSignals() != 0)
            {
                throw nb::python_error();
            }
            if (!progress.is_none())
            {
                progress(share);
            }
        });
    }

    nb::dict Flows() const
    {
        const auto& flows = m_network->Flows();
        nb::dict out;
#define COUNT(name) out[#name] = Column<std::int64_t>(flows, [](const auto& flow) { return flow->counts.name; })
        COUNT(sent_packets);
        COUNT(sent_bytes);
        COUNT(received_packets);
        COUNT(received_bytes);
        COUNT(duplicates);
        COUNT(reordered);
        COUNT(damaged);
        COUNT(retransmits);
        COUNT(first_ns);
        COUNT(last_ns);
#undef COUNT
        return out;
    }

    // Picoseconds, in the order of arrival.
    nb::object Latencies(std::size_t flow) const
    {
        return ToNumpy(std::vector<std::int64_t>(m_network->Flows().at(flow)->latencies_ps));
    }

    nb::dict Queues() const
    {
        const auto& rows = m_network->Queues();
        nb::dict out;
#define COLUMN(type, name) out[#name] = Column<type>(rows, [](const QueueSample& row) { return row.name; })
        COLUMN(std::int64_t, time_ns);
        COLUMN(std::int32_t, node);
        COLUMN(std::int32_t, port);
        COLUMN(std::int64_t, backlog_bytes);
#undef COLUMN
        return out;
    }

    // Of the ports of switch `i` that are given, in their order.
    nb::dict Ports(std::size_t i, const std::vector<std::uint32_t>& numbers) const
    {
        std::vector<P4SwitchPort> rows;
        for (const std::uint32_t number : numbers)
        {
            rows.push_back(m_network->Switch(i).GetCounters(number));
        }
        nb::dict out;
#define COLUMN(name, member) out[#name] = Column<std::int64_t>(rows, [](const P4SwitchPort& row) { return row.member; })
        COLUMN(packets, packets);
        COLUMN(bytes, bytes);
        COLUMN(drops, drops);
        COLUMN(marks, marks);
        COLUMN(max_backlog_bytes, maxBacklogBytes);
#undef COLUMN
        return out;
    }

    // All, beyond packets' first, and of these the late ones.
    nb::tuple Passes(std::size_t i) const
    {
        const P4Switch& node = m_network->Switch(i);
        return nb::make_tuple(node.GetPasses(), node.GetRecirculatedPasses(), m_network->LateRounds(i));
    }

    // By the program, by full queues, at ports without a link.
    nb::tuple Drops(std::size_t i) const
    {
        const P4SwitchDrops drops = m_network->Switch(i).GetDrops();
        return nb::make_tuple(drops.program, drops.queue, drops.nowhere);
    }

    nb::object Lost() const
    {
        return Column<std::int64_t>(m_network->Lost(), [](std::uint64_t frames) { return frames; });
    }

    std::uint64_t Events() const
    {
        return m_network->Events();
    }

    std::int64_t EndNs() const
    {
        return m_network->EndNs();
    }

  private:
    std::unique_ptr<Network> m_network;
};

} // namespace

NB_MODULE(_network, m)
{
    m.doc() = "netfold's networks of ns-3 hosts and P4 switches (C++).";
    UsePicoseconds();

#define FIELD(type, name) .def_rw(#name, &type::name)
    nb::class_<HostConfig>(m, "HostConfig").def(nb::init<>()) FIELD(HostConfig, name) FIELD(HostConfig, mac)
        FIELD(HostConfig, address);

    nb::class_<SwitchConfig>(m, "SwitchConfig").def(nb::init<>()) FIELD(SwitchConfig, name) FIELD(SwitchConfig, program)
        FIELD(SwitchConfig, library) FIELD(SwitchConfig, engine) FIELD(SwitchConfig, ingress_latency_ns)
        FIELD(SwitchConfig, egress_latency_ns) FIELD(SwitchConfig, pass_rate_pps) FIELD(SwitchConfig, recirculation_bps)
        FIELD(SwitchConfig, queue_packets) FIELD(SwitchConfig, buffer_bytes) FIELD(SwitchConfig, ecn_kmin_bytes)
        FIELD(SwitchConfig, ecn_kmax_bytes) FIELD(SwitchConfig, ecn_pmax)
        FIELD(SwitchConfig, max_rounds);

    nb::class_<LinkConfig>(m, "LinkConfig").def(nb::init<>()) FIELD(LinkConfig, a) FIELD(LinkConfig, b)
        FIELD(LinkConfig, port_a) FIELD(LinkConfig, port_b) FIELD(LinkConfig, rate_bps) FIELD(LinkConfig, delay_ns);

    nb::class_<FaultConfig>(m, "FaultConfig").def(nb::init<>()) FIELD(FaultConfig, link) FIELD(FaultConfig, loss)
        FIELD(FaultConfig, mean_burst) FIELD(FaultConfig, from_ns) FIELD(FaultConfig, until_ns);

    nb::class_<FlowConfig>(m, "FlowConfig").def(nb::init<>()) FIELD(FlowConfig, kind) FIELD(FlowConfig, source)
        FIELD(FlowConfig, listeners) FIELD(FlowConfig, address) FIELD(FlowConfig, port) FIELD(FlowConfig, tos)
        FIELD(FlowConfig, start_ns) FIELD(FlowConfig, stop_ns) FIELD(FlowConfig, rate_bps) FIELD(FlowConfig, packet_bytes)
        FIELD(FlowConfig, bytes) FIELD(FlowConfig, interval_ns) FIELD(FlowConfig, on_ns) FIELD(FlowConfig, off_ns);

    nb::class_<NetworkConfig>(m, "NetworkConfig").def(nb::init<>()) FIELD(NetworkConfig, hosts)
        FIELD(NetworkConfig, switches) FIELD(NetworkConfig, links) FIELD(NetworkConfig, faults) FIELD(NetworkConfig, flows)
        FIELD(NetworkConfig, duration_ns) FIELD(NetworkConfig, drain_ns) FIELD(NetworkConfig, sample_interval_ns)
        FIELD(NetworkConfig, mtu_bytes) FIELD(NetworkConfig, host_queue_bytes) FIELD(NetworkConfig, static_arp)
        FIELD(NetworkConfig, tcp) FIELD(NetworkConfig, tcp_ecn) FIELD(NetworkConfig, tcp_buffer_bytes)
        FIELD(NetworkConfig, tcp_min_rto_ns)        FIELD(NetworkConfig, seed) FIELD(NetworkConfig, pcap) FIELD(NetworkConfig, pcap_prefix);
#undef FIELD

    nb::class_<NetworkRun>(m, "NetworkRun")
        .def(nb::init<const NetworkConfig&>())
        .def("run", &NetworkRun::Run, nb::arg("progress").none())
        .def("flows", &NetworkRun::Flows)
        .def("latencies", &NetworkRun::Latencies)
        .def("queues", &NetworkRun::Queues)
        .def("ports", &NetworkRun::Ports)
        .def("passes", &NetworkRun::Passes)
        .def("drops", &NetworkRun::Drops)
        .def("lost", &NetworkRun::Lost)
        .def("events", &NetworkRun::Events)
        .def("end_ns", &NetworkRun::EndNs);
}
