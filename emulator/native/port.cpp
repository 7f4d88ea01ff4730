#include "port.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace netfold::host {

std::int64_t now_ns() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

bool Port::accept(Pool& pool, std::uint32_t mbuf, const std::uint8_t* data, std::uint32_t size, std::int64_t now) {
    if (size < 14 || size > pool.data_room()) {
        ++stats.ierrors;
        return false;
    }
    // The lowest bit of the first byte: a group address, broadcast among them.
    if (!promiscuous && !(data[0] & 1) && std::memcmp(data, address.data(), address.size()) != 0) {
        ++stats.rx_filtered;
        return false;
    }
    Mbuf& m = pool.mbuf(mbuf);
    m.data_len = std::uint16_t(size);
    m.port = id;
    m.timestamp_ns = now;
    std::memcpy(pool.data(mbuf), data, size);
    ++stats.ipackets;
    stats.ibytes += size;
    return true;
}

bool wait(const std::vector<Port*>& ports, const std::vector<int>& descriptors, std::int64_t timeout_ns) {
    std::vector<pollfd> fds;
    fds.reserve(ports.size() + descriptors.size());
    for (const int fd : descriptors) fds.push_back({fd, POLLIN, 0});
    std::size_t armed = 0;
    bool ready = false;
    for (; armed < ports.size() && !ready; ++armed) {
        ready = !ports[armed]->arm();
        fds.push_back({ports[armed]->descriptor(), POLLIN, 0});  // poll() passes over -1
    }
    if (!ready) {
        for (Port* port : ports) ++port->stats.sleeps;
        timespec t{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
        ready = ppoll(fds.data(), fds.size(), timeout_ns < 0 ? nullptr : &t, nullptr) != 0;
    }
    for (std::size_t i = 0; i < armed; ++i) ports[i]->disarm(fds[descriptors.size() + i].revents != 0);
    return ready;
}

}  // namespace netfold::host
