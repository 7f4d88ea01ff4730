// sim._native: the simulation as Python drives it. Arrays are borrowed from numpy; results are copied out once, at the end.
#include "cluster.h"

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
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::span<const T>
View(const Array<T>& array)
{
    return {array.data(), array.shape(0)};
}

template <typename T>
nb::object
ToNumpy(std::vector<T> values)
{
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
}

// A plan's arrays together with the numpy objects that own them.
struct PlanHandle
{
    PlanArrays arrays;
    std::vector<nb::object> owners;
};

// Runs without the GIL; progress callbacks and Ctrl-C take it back.
class Simulation
{
  public:
    // switches: (library, address, program, node) for each; layout: (fields, numbers) of wire-codec.h, or None
    Simulation(const Config& config, nb::list plans, nb::list phases, nb::list switches, nb::object layout)
    {
        std::vector<PlanArrays> arrays;
        for (const auto& plan : plans)
        {
            arrays.push_back(nb::cast<PlanHandle&>(plan).arrays);
            m_owners.push_back(nb::borrow(plan));
        }
        std::vector<Phase> steps;
        for (const auto& item : phases)
        {
            const auto tuple = nb::cast<nb::tuple>(item);
            const auto pre = nb::cast<Array<std::int64_t>>(tuple[1]);
            const auto post = nb::cast<Array<std::int64_t>>(tuple[2]);
            steps.push_back({nb::cast<std::int32_t>(tuple[0]), View(pre), View(post)});
            m_owners.push_back(nb::borrow(item));
        }
        std::vector<P4Source> programs;
        for (const auto& item : switches)
        {
            const auto tuple = nb::cast<nb::tuple>(item);
            programs.push_back({nb::cast<std::string>(tuple[0]), nb::cast<std::uintptr_t>(tuple[1]),
                                nb::cast<std::string>(tuple[2]), nb::cast<std::string>(tuple[3])});
        }
        WireLayout wire;
        if (!layout.is_none())
        {
            const auto tuple = nb::cast<nb::tuple>(layout);
            for (const auto [name, place] : nb::cast<nb::dict>(tuple[0]))
            {
                const auto pair = nb::cast<nb::tuple>(place);
                wire.fields[nb::cast<std::string>(name)] = {nb::cast<std::uint32_t>(pair[0]), nb::cast<std::uint32_t>(pair[1])};
            }
            for (const auto [name, number] : nb::cast<nb::dict>(tuple[1]))
            {
                wire.numbers[nb::cast<std::string>(name)] = nb::cast<std::uint64_t>(number);
            }
        }
        m_cluster = std::make_unique<Cluster>(config, arrays, std::move(steps), programs, wire);
    }

    void SetFeatures(nb::list byPhase)
    {
        std::vector<const std::int32_t*> pointers;
        for (const auto& item : byPhase)
        {
            if (item.is_none())
            {
                pointers.push_back(nullptr);
                continue;
            }
            const auto array = nb::cast<nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>>(item);
            pointers.push_back(array.data());
            m_owners.push_back(nb::borrow(item));
        }
        m_cluster->SetFeatures(std::move(pointers));
    }

    void Run(nb::object progress)
    {
        nb::gil_scoped_release unlocked;
        m_cluster->Run([&](const ProgressReport& report) {
            nb::gil_scoped_acquire locked;
            if (PyErr_CheckSignals() != 0)
            {
                throw nb::python_error();
            }
            if (!progress.is_none())
            {
                progress(report.now / kPsPerNs, report.hops, report.share);
            }
        });
    }

    nb::dict Counters() const
    {
        const auto& totals = m_cluster->Totals();
        nb::dict out;
        const char* classes[] = {"up", "down", "fabric"};
        for (int linkClass = 0; linkClass < 3; ++linkClass)
        {
            for (int kind = 0; kind < kKinds; ++kind)
            {
                const std::string name = std::string(classes[linkClass]) + "_" + kKindNames[kind];
                out[nb::str((name + "_frames").c_str())] = totals.frames[linkClass][kind];
                out[nb::str((name + "_bytes").c_str())] = totals.bytes[linkClass][kind];
            }
        }
        out["hops"] = totals.hops;
        out["drops"] = totals.drops;
        out["losses"] = totals.losses;
        out["cnps"] = totals.cnps;
        out["passes"] = totals.passes;
        out["recirculated_passes"] = totals.recirculatedPasses;
        out["results"] = totals.results;
        out["contributions"] = totals.contributions;
        out["bypassed"] = totals.bypassed;
        out["timeouts"] = totals.timeouts;
        out["pulls"] = totals.pulls;
        out["resends"] = totals.resends;
        out["stale"] = totals.stale;
        out["duplicates"] = totals.duplicates;
        out["saturated"] = totals.saturated;
        out["pauses"] = totals.pauses;
        out["background_bytes"] = totals.backgroundBytes;
        out["background_flows"] = totals.backgroundFlows;
        out["unreadable"] = totals.unreadable;
        std::uint64_t passes = 0;
        std::uint64_t recirculated = 0;
        std::uint64_t marks = totals.ecnMarks;
        for (const P4SwitchNode* node : m_cluster->P4Switches())
        {
            passes += node->Statistics().passes;
            recirculated += node->Manager().Recirculated();
            marks += node->Marks();
        }
        out["ecn_marks"] = marks;
        std::uint64_t partials = 0; // added up by leaves
        for (std::size_t leaf = 0; leaf < m_cluster->P4Switches().size() && leaf < m_cluster->Settings().leaves; ++leaf)
        {
            partials += m_cluster->P4Switches()[leaf]->Partials();
        }
        out["p4_partials"] = partials;
        out["p4_passes"] = passes;
        out["p4_recirculated"] = recirculated;
        out["events"] = m_cluster->Events();
        out["end_ns"] = m_cluster->End() / kPsPerNs;
        out["max_port_backlog_bytes"] = m_cluster->MaxPortBacklog();
        out["queue_memory_bytes"] = m_cluster->QueueMemoryBytes();
        out["live_payloads"] = m_cluster->LivePayloads();
        return out;
    }

    nb::dict Epochs()
    {
        std::vector<std::int64_t> start, commStart, commEnd, end;
        for (const EpochRow& row : m_cluster->Runner().Rows())
        {
            start.push_back(row.start / kPsPerNs);
            commStart.push_back(row.commStart < 0 ? -1 : row.commStart / kPsPerNs);
            commEnd.push_back(row.commEnd < 0 ? -1 : row.commEnd / kPsPerNs);
            end.push_back(row.end / kPsPerNs);
        }
        nb::dict out;
        out["start_ns"] = ToNumpy(std::move(start));
        out["comm_start_ns"] = ToNumpy(std::move(commStart));
        out["comm_end_ns"] = ToNumpy(std::move(commEnd));
        out["end_ns"] = ToNumpy(std::move(end));
        return out;
    }

    nb::dict Blocks()
    {
        std::vector<std::int64_t> start, end;
        std::vector<std::int32_t> phase, block, level, vertices;
        for (const BlockRow& row : m_cluster->Runner().BlockRows())
        {
            phase.push_back(static_cast<std::int32_t>(row.phase));
            block.push_back(row.block);
            level.push_back(row.level);
            vertices.push_back(static_cast<std::int32_t>(row.vertices));
            start.push_back(row.start / kPsPerNs);
            end.push_back(row.end / kPsPerNs);
        }
        nb::dict out;
        out["phase"] = ToNumpy(std::move(phase));
        out["block"] = ToNumpy(std::move(block));
        out["level"] = ToNumpy(std::move(level));
        out["vertices"] = ToNumpy(std::move(vertices));
        out["start_ns"] = ToNumpy(std::move(start));
        out["end_ns"] = ToNumpy(std::move(end));
        return out;
    }

    // time_ns[rows], active[rows], backlog_bytes[rows * columns]
    nb::dict Queues()
    {
        const Sampler& samples = m_cluster->Samples();
        std::vector<std::int64_t> times;
        for (const Ps at : samples.Times())
        {
            times.push_back(at / kPsPerNs);
        }
        nb::dict out;
        out["time_ns"] = ToNumpy(std::move(times));
        out["active"] = ToNumpy(samples.Active());
        out["backlog_bytes"] = ToNumpy(samples.Backlog());
        std::vector<std::int32_t> ports;
        for (const Switch* node : m_cluster->Switches())
        {
            ports.push_back(static_cast<std::int32_t>(node->Ports().size()));
        }
        out["ports_per_switch"] = ToNumpy(std::move(ports));
        return out;
    }

    // One row per direction of a link, ordered by the addresses of its ends.
    nb::dict Links() const
    {
        std::vector<const Port*> ports;
        for (const auto& port : m_cluster->Links())
        {
            ports.push_back(port.get());
        }
        std::sort(ports.begin(), ports.end(), [](const Port* one, const Port* other) {
            return std::pair(one->From(), one->To()) < std::pair(other->From(), other->To());
        });
        std::vector<std::int32_t> source, target, hop;
        std::vector<std::int64_t> packets, bytes, backgroundPackets, backgroundBytes;
        for (const Port* port : ports)
        {
            source.push_back(port->From());
            target.push_back(port->To());
            hop.push_back(static_cast<std::int32_t>(port->Class()));
            packets.push_back(static_cast<std::int64_t>(port->Own().frames));
            bytes.push_back(static_cast<std::int64_t>(port->Own().bytes));
            backgroundPackets.push_back(static_cast<std::int64_t>(port->Background().frames));
            backgroundBytes.push_back(static_cast<std::int64_t>(port->Background().bytes));
        }
        nb::dict out;
        out["source"] = ToNumpy(std::move(source));
        out["target"] = ToNumpy(std::move(target));
        out["hop"] = ToNumpy(std::move(hop));
        out["packets"] = ToNumpy(std::move(packets));
        out["bytes"] = ToNumpy(std::move(bytes));
        out["background_packets"] = ToNumpy(std::move(backgroundPackets));
        out["background_bytes"] = ToNumpy(std::move(backgroundBytes));
        return out;
    }

    // vertex: boundary index in its phase's plan, -1 where the packet carries none; block: -1 outside of blocks.
    nb::dict Packets()
    {
        std::vector<std::int64_t> time;
        std::vector<std::int32_t> kind, src, dst, phase, vertex, chunk, block, bytes, hop;
        const EpochRunner& runner = m_cluster->Runner();
        for (const PacketSample& sample : m_cluster->Packets())
        {
            const Frame& frame = sample.frame;
            const bool own = frame.kind != Kind::Background && !(frame.flags & kBackgroundFlow);
            time.push_back(sample.time / kPsPerNs);
            kind.push_back(static_cast<std::int32_t>(frame.kind));
            src.push_back(frame.src);
            dst.push_back(frame.dst);
            phase.push_back(own ? static_cast<std::int32_t>(runner.PhaseOf(frame.tag)) : -1);
            vertex.push_back(own ? static_cast<std::int32_t>(runner.VertexOf(frame)) : -1);
            chunk.push_back(frame.chunk);
            block.push_back(own ? runner.ExchangeOf(frame.tag).Block() : -1);
            bytes.push_back(frame.bytes);
            hop.push_back(static_cast<std::int32_t>(sample.hop));
        }
        nb::dict out;
        out["time_ns"] = ToNumpy(std::move(time));
        out["kind"] = ToNumpy(std::move(kind));
        out["src"] = ToNumpy(std::move(src));
        out["dst"] = ToNumpy(std::move(dst));
        out["phase"] = ToNumpy(std::move(phase));
        out["vertex"] = ToNumpy(std::move(vertex));
        out["chunk"] = ToNumpy(std::move(chunk));
        out["block"] = ToNumpy(std::move(block));
        out["bytes"] = ToNumpy(std::move(bytes));
        out["hop"] = ToNumpy(std::move(hop));
        return out;
    }

    // Value mode: int64 [boundary * width] of a phase.
    nb::object Results(std::size_t phase)
    {
        return ToNumpy(m_cluster->Runner().AllResults().at(phase));
    }

    // A switch's packets with p4_trace: (time_ps, port, out, bytes), in their order.
    nb::list Trace(std::size_t number) const
    {
        nb::list rows;
        for (const P4TraceRow& row : m_cluster->P4Switches().at(number)->Trace())
        {
            rows.append(nb::make_tuple(row.time, row.port, row.out,
                                       nb::bytes(reinterpret_cast<const char*>(row.bytes.data()), row.bytes.size())));
        }
        return rows;
    }

  private:
    std::vector<nb::object> m_owners;
    std::unique_ptr<Cluster> m_cluster;
};

} // namespace

NB_MODULE(_native, m)
{
    m.doc() = "netfold's cluster models on ns-3 (C++).";
    UsePicoseconds();

    nb::exception<P4Stopped>(m, "P4Stopped", PyExc_RuntimeError);

    nb::list kinds;
    for (const char* name : kKindNames)
    {
        kinds.append(name);
    }
    m.attr("KINDS") = kinds;

    nb::class_<Config>(m, "Config")
        .def(nb::init<>())
#define FIELD(name) .def_rw(#name, &Config::name)
        FIELD(workers) FIELD(leaves) FIELD(spines) FIELD(host_link_bps) FIELD(fabric_link_bps) FIELD(link_delay_ns)
        FIELD(switch_latency_ns) FIELD(ecmp_per_packet) FIELD(ecmp_by_destination) FIELD(p4) FIELD(p4_trace) FIELD(wire_protocol) FIELD(mtu_bytes) FIELD(tx_burst) FIELD(frame_overhead_bytes)
        FIELD(wire_gap_bytes) FIELD(control_frame_bytes) FIELD(pull_entry_bytes) FIELD(aggregators)
        FIELD(recirculation_limited) FIELD(pass_rate_pps) FIELD(recirculation_bps) FIELD(buffer_bytes) FIELD(pfc)
        FIELD(pfc_xoff_bytes) FIELD(pfc_xon_bytes) FIELD(first_come) FIELD(multicast_home) FIELD(presum) FIELD(dcqcn)
        FIELD(ecn_kmin_bytes) FIELD(ecn_kmax_bytes) FIELD(ecn_pmax) FIELD(ecn_fabric_kmin_bytes)
        FIELD(ecn_fabric_kmax_bytes) FIELD(dcqcn_g) FIELD(dcqcn_alpha_timer_ns) FIELD(dcqcn_increase_timer_ns)
        FIELD(dcqcn_byte_counter_bytes) FIELD(dcqcn_fast_recovery_rounds) FIELD(dcqcn_rai_bps) FIELD(dcqcn_rhai_bps)
        FIELD(dcqcn_min_rate_bps) FIELD(cnp_interval_ns) FIELD(loss_rate) FIELD(loss_mean_burst) FIELD(background_load)
        FIELD(background_bytes) FIELD(background_cdf) FIELD(rto_ns) FIELD(rto_min_ns) FIELD(time_limit_ns)
        FIELD(values_per_packet) FIELD(pipeline_bins) FIELD(value_mode) FIELD(stock_events) FIELD(sample_interval_ns)
        FIELD(packet_sample) FIELD(seed)
#undef FIELD
        ;

    nb::class_<PlanHandle>(m, "PlanArrays")
        .def("__init__",
             [](PlanHandle* self,
                std::uint32_t workers,
                std::uint32_t width,
                std::uint32_t chunks,
                Array<std::int32_t> owner,
                Array<std::int32_t> blockLevel,
                Array<std::int64_t> blockPtr,
                Array<std::int32_t> blockVertices,
                Array<std::int64_t> adjPtr,
                Array<std::int32_t> adj,
                Array<std::int64_t> residualPtr,
                Array<std::int32_t> residualAdj) {
                 new (self) PlanHandle{{workers,
                                        width,
                                        chunks,
                                        View(owner),
                                        View(blockLevel),
                                        View(blockPtr),
                                        View(blockVertices),
                                        View(adjPtr),
                                        View(adj),
                                        View(residualPtr),
                                        View(residualAdj)},
                                       {nb::cast(owner),
                                        nb::cast(blockLevel),
                                        nb::cast(blockPtr),
                                        nb::cast(blockVertices),
                                        nb::cast(adjPtr),
                                        nb::cast(adj),
                                        nb::cast(residualPtr),
                                        nb::cast(residualAdj)}};
             });

    nb::class_<Simulation>(m, "Simulation")
        .def(nb::init<const Config&, nb::list, nb::list, nb::list, nb::object>(),
             nb::arg("config"),
             nb::arg("plans"),
             nb::arg("phases"),
             nb::arg("switches") = nb::list(),
             nb::arg("layout") = nb::none())
        .def("set_features", &Simulation::SetFeatures)
        .def("run", &Simulation::Run, nb::arg("progress").none())
        .def("counters", &Simulation::Counters)
        .def("epochs", &Simulation::Epochs)
        .def("blocks", &Simulation::Blocks)
        .def("queues", &Simulation::Queues)
        .def("links", &Simulation::Links)
        .def("packets", &Simulation::Packets)
        .def("trace", &Simulation::Trace)
        .def("results", &Simulation::Results);
}
