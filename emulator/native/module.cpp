// emulator._host: what must be fast or atomic in the emulator's hosts: shared memory, rings, buffers, drivers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "frames.hpp"
#include "packet_port.hpp"
#include "pcap_port.hpp"
#include "pool.hpp"
#include "region.hpp"
#include "ring.hpp"
#include "shm_port.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace netfold::host {
namespace {

using Numbers = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NumbersOut = nb::ndarray<std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using RowsOut = nb::ndarray<std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Ends = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using EndsOut = nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T, int dimensions>
using Array = nb::ndarray<T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;

void bind_region(nb::module_& m) {
    nb::class_<Region>(m, "Region", "Unnamed shared memory (memfd).")
        .def_static("attach", &Region::attach, "fd"_a)
        .def_prop_ro("fd", &Region::fd)
        .def_prop_ro("size", &Region::size);
}

void bind_ring(nb::module_& m) {
    nb::class_<Ring>(m, "Ring", "Bounded queue of uint32 in shared memory.")
        .def_static("create", &Ring::create, "size"_a, "many_producers"_a, "name"_a, "huge"_a)
        .def_static("attach", &Ring::attach, "fd"_a)
        .def("enqueue", [](Ring& r, Numbers v, bool all) { return r.enqueue(v.data(), v.size(), all); })
        .def("dequeue", [](Ring& r, NumbersOut v) { return r.dequeue(v.data(), v.size()); })
        .def_prop_ro("count", &Ring::count)
        .def_prop_ro("size", &Ring::size)
        .def_prop_ro("many_producers", &Ring::many_producers)
        .def_prop_ro("fd", &Ring::fd);
}

// The frames' bytes one after the other. `ends`: of each; `data` must have room for all.
std::size_t pack(Pool& pool, Numbers mbufs, nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig> data, EndsOut ends) {
    pool.check(mbufs.data(), mbufs.size());
    if (ends.size() < mbufs.size()) throw std::invalid_argument("pack: too few ends");
    std::size_t at = 0;
    for (std::size_t i = 0; i < mbufs.size(); ++i) {
        const std::uint32_t index = mbufs.data()[i];
        const std::size_t size = pool.mbuf(index).data_len;
        if (at + size > data.size()) throw std::invalid_argument("pack: not enough room");
        std::memcpy(data.data() + at, pool.data(index), size);
        ends.data()[i] = at += size;
    }
    return at;
}

// Frames given one after the other into mbufs just allocated.
void unpack(Pool& pool, Numbers mbufs, Bytes data, Ends ends) {
    pool.check(mbufs.data(), mbufs.size());
    if (ends.size() != mbufs.size()) throw std::invalid_argument("unpack: as many ends as mbufs");
    std::uint64_t start = 0;
    for (std::size_t i = 0; i < mbufs.size(); ++i) {
        const std::uint64_t end = ends.data()[i];
        const std::uint32_t index = mbufs.data()[i];
        if (end < start || end > data.size() || end - start > pool.stride() - pool.mbuf(index).data_off) {
            throw std::invalid_argument("unpack: a frame's end is out of range or it is longer than an mbuf");
        }
        std::memcpy(pool.data(index), data.data() + start, end - start);
        pool.mbuf(index).data_len = std::uint16_t(end - start);
        start = end;
    }
}

// Row i into mbuf i, which gets the row's length.
void write_rows(Pool& pool, Numbers mbufs, Rows rows) {
    pool.check(mbufs.data(), mbufs.size());
    const std::size_t size = rows.shape(1);
    if (rows.shape(0) != mbufs.size()) throw std::invalid_argument("write: as many frames as mbufs");
    for (std::size_t i = 0; i < mbufs.size(); ++i) {
        Mbuf& m = pool.mbuf(mbufs.data()[i]);
        if (size > std::size_t{pool.stride()} - m.data_off) throw std::invalid_argument("write: longer than an mbuf");
        std::memcpy(pool.data(mbufs.data()[i]), rows.data() + i * size, size);
        m.data_len = std::uint16_t(size);
    }
}

// The first bytes of mbuf i into row i, zero behind its end.
void read_rows(Pool& pool, Numbers mbufs, RowsOut rows) {
    pool.check(mbufs.data(), mbufs.size());
    const std::size_t size = rows.shape(1);
    if (rows.shape(0) != mbufs.size()) throw std::invalid_argument("read: as many rows as mbufs");
    for (std::size_t i = 0; i < mbufs.size(); ++i) {
        const std::uint32_t index = mbufs.data()[i];
        const std::size_t n = std::min(size, std::size_t{pool.mbuf(index).data_len});
        std::memcpy(rows.data() + i * size, pool.data(index), n);
        std::memset(rows.data() + i * size + n, 0, size - n);
    }
}

// As read_rows, with all lengths; and the mbufs are free again.
void take_rows(Pool& pool, Numbers mbufs, RowsOut rows, Array<std::int64_t, 1> lengths) {
    if (rows.shape(0) != mbufs.size() || lengths.size() != mbufs.size()) {
        throw std::invalid_argument("take: as many rows and lengths as mbufs");
    }
    read_rows(pool, mbufs, rows);
    for (std::size_t i = 0; i < mbufs.size(); ++i) lengths.data()[i] = pool.mbuf(mbufs.data()[i]).data_len;
    pool.release(mbufs.data(), mbufs.size());
}

// Counts the frames by their byte `at`; one that does not reach so far by 0.
void tally(Pool& pool, Numbers mbufs, std::size_t at, Array<std::int64_t, 1> counts) {
    pool.check(mbufs.data(), mbufs.size());
    if (counts.size() != 256) throw std::invalid_argument("tally: 256 counts");
    for (std::size_t i = 0; i < mbufs.size(); ++i) {
        const std::uint32_t index = mbufs.data()[i];
        ++counts.data()[at < pool.mbuf(index).data_len ? pool.data(index)[at] : 0];
    }
}

// `mbufs` sorted by their `keys` (below `starts`' size - 1), in their order otherwise; key k's are starts[k] to
// starts[k + 1].
void sort_by(Numbers mbufs, Numbers keys, NumbersOut sorted, NumbersOut starts) {
    if (keys.size() != mbufs.size() || sorted.size() != mbufs.size() || starts.size() < 2) {
        throw std::invalid_argument("sort_by: as many keys and places as mbufs");
    }
    const std::size_t most = starts.size() - 1;
    std::fill_n(starts.data(), starts.size(), 0);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (keys.data()[i] >= most) throw std::invalid_argument("sort_by: a key is too large");
        ++starts.data()[keys.data()[i] + 1];
    }
    for (std::size_t k = 0; k < most; ++k) starts.data()[k + 1] += starts.data()[k];
    for (std::size_t i = 0; i < keys.size(); ++i) sorted.data()[starts.data()[keys.data()[i]]++] = mbufs.data()[i];
    for (std::size_t k = most; k > 0; --k) starts.data()[k] = starts.data()[k - 1];
    starts.data()[0] = 0;
}

Layout layout_of(const Array<const std::int64_t, 1>& numbers) {
    if (numbers.size() != 8) throw std::invalid_argument("a layout is 8 numbers");
    const std::int64_t* n = numbers.data();
    return {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
}

void bind_frames(nb::module_& m) {
    m.def(
        "make_uploads",
        [](RowsOut frames, Bytes pattern, Array<const std::int64_t, 1> layout, Array<const std::int64_t, 1> slots,
           Array<const std::int64_t, 1> rows, Array<const std::int32_t, 3> values, std::size_t first) {
            const Layout where = layout_of(layout);
            if (pattern.size() != frames.shape(1) || rows.size() != slots.size() ||
                std::int64_t(values.shape(2)) != where.number) {
                throw std::invalid_argument("make_uploads: the arrays do not fit together");
            }
            make_uploads(frames.data(), frames.shape(0), frames.shape(1), where,
                         {pattern.data(), slots.data(), rows.data(), slots.size(), values.data(), values.shape(0),
                          values.shape(1)},
                         first);
        },
        "frames"_a, "pattern"_a, "layout"_a, "slots"_a, "rows"_a, "values"_a, "first"_a);
    m.def(
        "take_results",
        [](Rows frames, Array<const std::int64_t, 1> lengths, Rows patterns, Bytes mask,
           Array<const std::int64_t, 1> layout, Array<const std::int64_t, 1> own_of,
           Array<const std::int64_t, 1> expected, Array<const std::int64_t, 1> rows, Array<bool, 2> done,
           Array<std::int64_t, 3> totals, Array<bool, 1> left) {
            const Layout where = layout_of(layout);
            if (lengths.size() != frames.shape(0) || left.size() != frames.shape(0) || mask.size() != patterns.shape(1) ||
                rows.size() != expected.size() || done.shape(0) != expected.size() || done.shape(1) != totals.shape(1) ||
                std::int64_t(totals.shape(2)) != where.number) {
                throw std::invalid_argument("take_results: the arrays do not fit together");
            }
            const Results into{patterns.data(), patterns.shape(0), mask.data(),     mask.size(),
                               own_of.data(),   own_of.size(),     expected.data(), rows.data(),
                               expected.size(), done.data(),       totals.data(),   totals.shape(0),
                               totals.shape(1)};
            const Taken taken = take_results(frames.data(), lengths.data(), frames.shape(0), frames.shape(1), where, into,
                                             left.data());
            return nb::make_tuple(taken.added, taken.copies, taken.saturated);
        },
        "frames"_a, "lengths"_a, "patterns"_a, "mask"_a, "layout"_a, "own_of"_a, "expected"_a, "rows"_a, "done"_a,
        "totals"_a, "left"_a);
}

void bind_pool(nb::module_& m) {
    nb::class_<Pool>(m, "Pool", "Packet buffers in shared memory.")
        .def_static("create", &Pool::create, "count"_a, "data_room"_a, "name"_a, "huge"_a)
        .def_static("attach", &Pool::attach, "fd"_a)
        .def("alloc", [](Pool& p, NumbersOut out) { return p.alloc(out.data(), out.size()); })
        .def("free", [](Pool& p, Numbers v) { p.release(v.data(), v.size()); })
        .def("share", [](Pool& p, Numbers v) { p.share(v.data(), v.size()); })
        .def("check", [](Pool& p, Numbers v) { p.check(v.data(), v.size()); })
        .def("pack", &pack)
        .def("unpack", &unpack)
        .def("write", &write_rows)
        .def("read", &read_rows)
        .def("take", &take_rows)
        .def("tally", &tally)
        .def("memory",
             [](Pool& p) {
                 auto* kept = new std::shared_ptr<Region>(p.region());
                 nb::capsule owner(kept, [](void* k) noexcept { delete static_cast<std::shared_ptr<Region>*>(k); });
                 return nb::ndarray<nb::numpy, std::uint8_t>(p.region()->data(), {p.region()->size()}, owner);
             })
        .def_prop_ro("mbufs_at", &Pool::mbufs_at)
        .def_prop_ro("buffers_at", &Pool::buffers_at)
        .def_prop_ro("count", &Pool::count)
        .def_prop_ro("data_room", &Pool::data_room)
        .def_prop_ro("stride", &Pool::stride)
        .def_prop_ro("in_use", &Pool::in_use)
        .def_prop_ro("fd", [](Pool& p) { return p.region()->fd(); })
        .def_ro_static("headroom", &Pool::headroom);
}

nb::dict stats_of(const Port& port) {
    const Stats& s = port.stats;
    nb::dict d;
    d["ipackets"] = s.ipackets;
    d["opackets"] = s.opackets;
    d["ibytes"] = s.ibytes;
    d["obytes"] = s.obytes;
    d["imissed"] = s.imissed;
    d["ierrors"] = s.ierrors;
    d["oerrors"] = s.oerrors;
    d["rx_nombuf"] = s.rx_nombuf;
    d["rx_filtered"] = s.rx_filtered;
    d["tx_full"] = s.tx_full;
    d["wakeups_sent"] = s.wakeups_sent;
    d["sleeps"] = s.sleeps;
    return d;
}

void bind_ports(nb::module_& m) {
    nb::class_<Port>(m, "Port", "A driver's data path.")
        .def("receive", [](Port& p, Pool& pool, NumbersOut out) { return p.receive(pool, out.data(), out.size()); })
        .def("send", [](Port& p, Pool& pool, Numbers v) { return p.send(pool, v.data(), v.size()); })
        .def("stats", &stats_of)
        .def("reset", [](Port& p) { p.stats = Stats{}; })
        .def_prop_ro("descriptor", &Port::descriptor)
        .def_rw("promiscuous", &Port::promiscuous)
        .def_rw("address", &Port::address)
        .def_rw("id", &Port::id)
        .def_rw("max_frame", &Port::max_frame)
        .def_rw("wake_at", &Port::wake_at);
    nb::class_<ShmPort, Port>(m, "ShmPort", "One end of a link in shared memory.")
        .def(nb::init<std::shared_ptr<Region>, int, int>(), "region"_a, "side"_a, "socket"_a)
        .def_static("create_link", &ShmPort::create_link, "slots"_a, "frame_bytes"_a, "name"_a, "huge"_a)
        .def_static("link_frame_bytes", &ShmPort::link_frame_bytes, "region"_a)
        .def("peer_gone", &ShmPort::peer_gone);
    nb::class_<PacketPort, Port>(m, "PacketPort", "A network interface through AF_PACKET.")
        .def(nb::init<const std::string&, std::uint32_t, std::uint32_t>(), "interface"_a, "frames"_a, "mtu"_a)
        .def("set_promiscuous", &PacketPort::set_promiscuous)
        .def("read_drops", &PacketPort::read_drops);
    nb::class_<PcapPort, Port>(m, "PcapPort", "Packets from a file and to a file.")
        .def(nb::init<const std::string&, const std::string&>(), "rx_file"_a, "tx_file"_a)
        .def("write", [](PcapPort& p, Pool& pool, Numbers v) { p.write(pool, v.data(), v.size()); })
        .def("flush", &PcapPort::flush)
        .def_prop_ro("at_end", &PcapPort::at_end);
    m.def("sort_by", &sort_by, "mbufs"_a, "keys"_a, "sorted"_a, "starts"_a);
    m.def(
        "wait",
        [](const std::vector<Port*>& ports, const std::vector<int>& descriptors, std::int64_t timeout_ns) {
            nb::gil_scoped_release release;
            return wait(ports, descriptors, timeout_ns);
        },
        "ports"_a, "descriptors"_a, "timeout_ns"_a);
}

}  // namespace
}  // namespace netfold::host

NB_MODULE(_host, m) {
    m.doc() = "Shared memory, rings, packet buffers and drivers (C++).";
    netfold::host::bind_region(m);
    netfold::host::bind_ring(m);
    netfold::host::bind_pool(m);
    netfold::host::bind_ports(m);
    netfold::host::bind_frames(m);
}
